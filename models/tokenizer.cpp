#include "models/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/added_tokens.h"
#include "models/bpe.h"
#include "models/byte_alphabet.h"
#include "models/error.h"
#include "models/tokenizer_steps.h"
#include "models/utf8.h"

namespace remat::models {

using nlohmann::json;

struct Tokenizer::Parts {
  steps::Normalize normalize;
  steps::Split split;
  steps::Decode decode;
  steps::Template around;
  std::vector<AddedToken> raw_tokens;         // found in the given text
  std::vector<AddedToken> normalized_tokens;  // found in the normalized text
  Bpe bpe{{}};
  std::unordered_map<int64_t, std::string> names;  // as the vocabulary spells them
  std::unordered_map<int64_t, bool> special;
  int64_t size = 0;
};

// ---- tokenizer.json
// ------------------------------------------------------------------------------

namespace {

Bpe::Options read_options(const json& model, bool byte_level) {
  if (model.value("type", "BPE") != "BPE") {
    throw steps::Unsupported(fmt::format("model \"{}\" is not supported; only BPE is",
                                         model.at("type").get<std::string>()));
  }
  for (const auto* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto found = model.find(key);
    if (found != model.end() && !found->is_null() && *found != json("")) {
      throw steps::Unsupported(fmt::format("model.{} is not supported", key));
    }
  }
  Bpe::Options options;
  options.symbols = byte_level ? Bpe::Symbols::bytes : Bpe::Symbols::characters;
  options.byte_fallback = model.value("byte_fallback", false);
  options.ignore_merges = model.value("ignore_merges", false);
  options.fuse_unknown = model.value("fuse_unk", false);
  if (const auto unknown = model.find("unk_token");
      unknown != model.end() && unknown->is_string()) {
    options.unknown = model.at("vocab").at(unknown->get<std::string>()).get<Bpe::Id>();
  }
  return options;
}

/// "a b", as older files have it, or ["a", "b"].
std::pair<std::string, std::string> read_merge(const json& merge) {
  if (merge.is_array()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
  const auto text = merge.get<std::string>();
  const auto space = text.find(' ');
  if (space == std::string::npos) throw steps::Unsupported("merge \"" + text + "\" has no space");
  return {text.substr(0, space), text.substr(space + 1)};
}

/// Spelled in characters by the file, in bytes by us.
std::string symbol_of(const std::string& name, bool byte_level) {
  return byte_level ? byte_alphabet::to_bytes(name).value_or(name) : name;
}

Bpe read_bpe(const json& model, bool byte_level) {
  Bpe bpe(read_options(model, byte_level));
  for (const auto& [name, id] : model.at("vocab").items()) {
    bpe.add_token(symbol_of(name, byte_level), id.get<Bpe::Id>());
  }
  for (const auto& merge : model.at("merges")) {
    const auto [left, right] = read_merge(merge);
    bpe.add_merge(symbol_of(left, byte_level), symbol_of(right, byte_level));
  }
  bpe.finish();
  return bpe;
}

AddedToken read_added_token(const json& entry) {
  if (entry.value("single_word", false)) {
    throw steps::Unsupported(fmt::format("added token \"{}\": single_word is not supported",
                                         entry.at("content").get<std::string>()));
  }
  return {entry.at("content").get<std::string>(), entry.at("id").get<int64_t>(),
          entry.value("special", false),          entry.value("normalized", true),
          entry.value("lstrip", false),           entry.value("rstrip", false)};
}

const json& part_of(const json& file, const char* name) {
  static const json missing;
  const auto found = file.find(name);
  return found == file.end() ? missing : *found;
}

}  // namespace

/// A class only to see Parts, which is private.
class Tokenizer::Reader {
 public:
  static std::unique_ptr<const Parts> read(const json& file);
};

std::unique_ptr<const Tokenizer::Parts> Tokenizer::Reader::read(const json& file) {
  auto parts = std::make_unique<Parts>();
  parts->normalize = steps::make_normalizer(part_of(file, "normalizer"));
  parts->split = steps::make_splitter(part_of(file, "pre_tokenizer"));
  parts->decode = steps::make_decoder(part_of(file, "decoder"));
  parts->around = steps::make_template(part_of(file, "post_processor"));
  const auto& model = file.at("model");
  parts->bpe = read_bpe(model, steps::has_byte_level(part_of(file, "pre_tokenizer")));
  for (const auto& [name, id] : model.at("vocab").items()) parts->names[id.get<int64_t>()] = name;
  for (const auto& entry : part_of(file, "added_tokens")) {
    auto token = read_added_token(entry);
    parts->names[token.id] = token.text;
    parts->special[token.id] = token.special;
    if (token.normalized) token.text = parts->normalize(token.text);
    (token.normalized ? parts->normalized_tokens : parts->raw_tokens).push_back(token);
  }
  for (const auto& [id, _] : parts->names) parts->size = std::max(parts->size, id + 1);
  return parts;
}

Tokenizer::Tokenizer(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  std::ifstream stream(path);
  if (!stream) {
    throw Error(path.string(), "",
                "cannot be opened; python -m remat.prepare model writes it beside the weights");
  }
  try {
    parts_ = Reader::read(json::parse(stream));
  } catch (const json::exception& error) {
    throw Error(path.string(), "",
                fmt::format("is no tokenizer of Hugging Face: {}", error.what()));
  } catch (const std::out_of_range&) {
    throw Error(path.string(), "model.merges", "joins tokens that are not in the vocabulary");
  } catch (const steps::Unsupported& error) {
    throw Error(path.string(), "", error.what());
  }
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

// ---- Use
// -----------------------------------------------------------------------------------------

std::vector<int64_t> Tokenizer::encode(std::string_view given, bool add_special) const {
  const auto text = utf8::repaired(given);
  std::vector<int64_t> ids;
  if (add_special) ids = parts_->around.before;
  const auto add = [&](const AddedToken& token) { ids.push_back(token.id); };
  const auto add_pieces = [&](std::string_view normalized, bool first) {
    for (const auto& piece : parts_->split(std::string(normalized), first)) {
      parts_->bpe.encode(piece, ids);
    }
  };
  const auto add_text = [&](std::string_view part) {
    const bool at_start = part.data() == text.data();
    const auto normalized = parts_->normalize(std::string(part));
    split_at_tokens(
        normalized, parts_->normalized_tokens,
        [&](std::string_view rest) {
          add_pieces(rest, at_start && rest.data() == normalized.data());
        },
        add);
  };
  split_at_tokens(text, parts_->raw_tokens, add_text, add);
  if (add_special) ids.insert(ids.end(), parts_->around.after.begin(), parts_->around.after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special) const {
  std::vector<std::string> names;
  for (const int64_t id : ids) {
    const auto name = parts_->names.find(id);
    if (name == parts_->names.end()) continue;
    const auto special = parts_->special.find(id);
    if (skip_special && special != parts_->special.end() && special->second) continue;
    names.push_back(name->second);
  }
  std::string bytes;
  for (const auto& text : parts_->decode(std::move(names))) bytes += text;
  return utf8::repaired(bytes);
}

int64_t Tokenizer::size() const { return parts_->size; }

}  // namespace remat::models
