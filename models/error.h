#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace remat::models {

/// A model, token or tokenizer file that cannot be used. The text names the file, the place in it,
/// the cause and the way out:
///
///     out/model/model.safetensors: tensor "model.norm.weight": shape is [64], the configuration
///     asks for [576]; take config.json and the weights from the same model
class Error : public std::runtime_error {
 public:
  /// `place` may be empty: then the whole file is meant.
  Error(std::string_view file, std::string_view place, std::string_view cause)
      : std::runtime_error(text(file, place, cause)), file_(file) {}

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  static std::string text(std::string_view file, std::string_view place, std::string_view cause) {
    std::string joined(file);
    if (!place.empty()) joined.append(": ").append(place);
    return joined.append(": ").append(cause);
  }

  std::string file_;
};

}  // namespace remat::models
