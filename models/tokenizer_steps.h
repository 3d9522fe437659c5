#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

/// The parts of tokenizer.json before and after the merges, each as a function. Every maker throws
/// Unsupported on a part that is not supported.
namespace remat::models::steps {

/// Names a part of tokenizer.json and what of it is not supported.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Text to text.
using Normalize = std::function<std::string(std::string)>;
Normalize make_normalizer(const nlohmann::json& part);

/// Appends the pieces of a text that are encoded each by itself. `first`: nothing comes before it.
using Split = std::function<std::vector<std::string>(std::string text, bool first)>;
Split make_splitter(const nlohmann::json& part);

/// Tokens, as the vocabulary spells them, to texts that are then joined. The result may have bytes
/// that are no UTF-8.
using Decode = std::function<std::vector<std::string>(std::vector<std::string> tokens)>;
Decode make_decoder(const nlohmann::json& part);

/// Tokens that go around every text.
struct Template {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
};
Template make_template(const nlohmann::json& part);

/// True iff the part is byte-level, or is a sequence with such a part in it.
bool has_byte_level(const nlohmann::json& part);

}  // namespace remat::models::steps
