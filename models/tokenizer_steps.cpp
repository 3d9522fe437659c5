#include "models/tokenizer_steps.h"

#include <stdexcept>

#include <fmt/format.h>

#include "models/bpe.h"
#include "models/byte_alphabet.h"
#include "models/splitter.h"
#include "models/utf8.h"

namespace remat::models::steps {

using nlohmann::json;

namespace {

constexpr const char* kMetaspace = "\xE2\x96\x81";  // U+2581, which stands for a space

std::string type_of(const json& part) { return part.at("type").get<std::string>(); }

[[noreturn]] void unsupported(const std::string& what, const json& part) {
  throw Unsupported(fmt::format("{} \"{}\" is not supported", what, type_of(part)));
}

}  // namespace

bool has_byte_level(const json& part) {
  if (!part.is_object()) return false;
  if (type_of(part) == "ByteLevel") return true;
  for (const auto* list : {"pretokenizers", "decoders", "processors"}) {
    if (!part.contains(list)) continue;
    for (const auto& inner : part.at(list)) {
      if (has_byte_level(inner)) return true;
    }
  }
  return false;
}

// ---- Normalizers
// ---------------------------------------------------------------------------------

namespace {

Normalize make_replacement(const json& part) {
  const auto& pattern = part.at("pattern");
  if (!pattern.contains("String")) {
    throw Unsupported("normalizer Replace with a regular expression");
  }
  const auto from = pattern.at("String").get<std::string>();
  const auto to = part.at("content").get<std::string>();
  return [from, to](const std::string& text) { return utf8::replaced(text, from, to); };
}

Normalize make_form(utf8::Form form) {
  return [form](const std::string& text) { return utf8::normalized(text, form); };
}

Normalize make_sequence(const json& part) {
  std::vector<Normalize> inner;
  for (const auto& one : part.at("normalizers")) inner.push_back(make_normalizer(one));
  return [inner](std::string text) {
    for (const auto& step : inner) text = step(std::move(text));
    return text;
  };
}

}  // namespace

Normalize make_normalizer(const json& part) {
  if (part.is_null()) return [](std::string text) { return text; };
  const auto type = type_of(part);
  if (type == "NFC") return make_form(utf8::Form::nfc);
  if (type == "NFD") return make_form(utf8::Form::nfd);
  if (type == "NFKC") return make_form(utf8::Form::nfkc);
  if (type == "NFKD") return make_form(utf8::Form::nfkd);
  if (type == "Replace") return make_replacement(part);
  if (type == "Sequence") return make_sequence(part);
  if (type == "Prepend") {
    const auto prefix = part.at("prepend").get<std::string>();
    return [prefix](const std::string& text) { return text.empty() ? text : prefix + text; };
  }
  unsupported("normalizer", part);
}

// ---- Pre-tokenizers
// ------------------------------------------------------------------------------

namespace {

/// Every piece cut further by a pattern.
Split split_by(const std::string& pattern) {
  try {
    const Splitter splitter(pattern);
    return [splitter](const std::string& text, bool) {
      std::vector<std::string_view> pieces;
      splitter.split(text, pieces);
      return std::vector<std::string>(pieces.begin(), pieces.end());
    };
  } catch (const std::invalid_argument& error) {
    throw Unsupported(fmt::format("pre-tokenizer pattern \"{}\": {}", pattern, error.what()));
  }
}

/// A string as a pattern that matches it.
std::string quoted(const std::string& text) {
  return R"(\Q)" + utf8::replaced(text, R"(\E)", R"(\E\\E\Q)") + R"(\E)";
}

Split make_split(const json& part) {
  if (part.at("behavior") != "Isolated" || part.value("invert", false)) {
    throw Unsupported("pre-tokenizer Split with another behavior than Isolated");
  }
  const auto& pattern = part.at("pattern");
  if (pattern.contains("Regex")) return split_by(pattern.at("Regex").get<std::string>());
  return split_by(quoted(pattern.at("String").get<std::string>()));
}

/// The bytes stay bytes here: Bpe works on them, and not on the characters that stand for them.
Split make_byte_level(const json& part) {
  const std::string prefix = part.value("add_prefix_space", true) ? " " : "";
  const bool use_pattern = part.value("use_regex", true);
  const auto split = split_by(kGpt2Pattern);
  return [prefix, use_pattern, split](const std::string& given, bool first) {
    const auto text = given.starts_with(' ') ? given : prefix + given;
    return use_pattern ? split(text, first) : std::vector{text};
  };
}

/// Cuts before every metaspace.
std::vector<std::string> cut_before_metaspace(const std::string& text) {
  std::vector<std::string> pieces;
  size_t cut = 0;
  for (size_t found = 0; (found = text.find(kMetaspace, cut + 1)) != std::string::npos;
       cut = found) {
    pieces.push_back(text.substr(cut, found - cut));
  }
  if (cut < text.size()) pieces.push_back(text.substr(cut));
  return pieces;
}

Split make_metaspace(const json& part) {
  const auto scheme = part.value("prepend_scheme", "always");
  const bool cut = part.value("split", true);
  if (part.at("replacement") != kMetaspace) {
    throw Unsupported("pre-tokenizer Metaspace with another character than U+2581");
  }
  return [scheme, cut](const std::string& given, bool first) {
    auto text = utf8::replaced(given, " ", kMetaspace);
    const bool prepend = scheme == "always" || (scheme == "first" && first);
    if (prepend && !text.starts_with(kMetaspace)) text.insert(0, kMetaspace);
    return cut ? cut_before_metaspace(text) : std::vector{text};
  };
}

Split make_split_sequence(const json& part) {
  std::vector<Split> inner;
  for (const auto& one : part.at("pretokenizers")) inner.push_back(make_splitter(one));
  return [inner](std::string text, bool first) {
    std::vector<std::string> pieces{std::move(text)};
    for (const auto& step : inner) {
      std::vector<std::string> finer;
      for (size_t place = 0; place < pieces.size(); ++place) {
        auto cut = step(std::move(pieces[place]), first && place == 0);
        std::move(cut.begin(), cut.end(), std::back_inserter(finer));
      }
      pieces = std::move(finer);
    }
    return pieces;
  };
}

}  // namespace

Split make_splitter(const json& part) {
  if (part.is_null()) return [](std::string text, bool) { return std::vector{std::move(text)}; };
  const auto type = type_of(part);
  if (type == "ByteLevel") return make_byte_level(part);
  if (type == "Split") return make_split(part);
  if (type == "Metaspace") return make_metaspace(part);
  if (type == "Sequence") return make_split_sequence(part);
  if (type == "Digits") {
    return split_by(part.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  }
  unsupported("pre-tokenizer", part);
}

// ---- Decoders
// ------------------------------------------------------------------------------------

namespace {

using Tokens = std::vector<std::string>;

Decode for_each_token(std::function<std::string(const std::string&)> change) {
  return [change = std::move(change)](Tokens tokens) {
    for (auto& token : tokens) token = change(token);
    return tokens;
  };
}

std::string joined(const Tokens& tokens) {
  std::string text;
  for (const auto& token : tokens) text += token;
  return text;
}

/// Removes up to `start` and `stop` times `content` at the ends of a token.
std::string stripped(std::string token, const std::string& content, size_t start, size_t stop) {
  for (; start > 0 && token.starts_with(content); --start) token.erase(0, content.size());
  for (; stop > 0 && token.ends_with(content); --stop) token.resize(token.size() - content.size());
  return token;
}

std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  const auto digits = token.substr(3, 2);
  if (digits.find_first_not_of("0123456789ABCDEFabcdef") != std::string::npos) return std::nullopt;
  return static_cast<char>(std::stoi(digits, nullptr, 16));
}

/// A row of byte tokens becomes its text, or one U+FFFD a byte where it is no UTF-8.
Tokens decode_bytes(const Tokens& tokens) {
  Tokens decoded;
  std::string row;
  const auto end_row = [&] {
    if (row.empty()) return;
    if (utf8::repaired(row) == row) {
      decoded.push_back(row);
    } else {
      decoded.insert(decoded.end(), row.size(), "\xEF\xBF\xBD");
    }
    row.clear();
  };
  for (const auto& token : tokens) {
    if (const auto byte = byte_of(token)) {
      row += *byte;
      continue;
    }
    end_row();
    decoded.push_back(token);
  }
  end_row();
  return decoded;
}

Decode make_replacing_decoder(const json& part) {
  const auto& pattern = part.at("pattern");
  if (!pattern.contains("String")) throw Unsupported("decoder Replace with a regular expression");
  const auto from = pattern.at("String").get<std::string>();
  const auto to = part.at("content").get<std::string>();
  return for_each_token([from, to](const auto& token) { return utf8::replaced(token, from, to); });
}

Decode make_metaspace_decoder(const json& part) {
  const bool prefixed = part.value("prepend_scheme", "always") != "never";
  return [prefixed](Tokens tokens) {
    for (size_t place = 0; place < tokens.size(); ++place) {
      auto& token = tokens[place];
      if (prefixed && place == 0 && token.starts_with(kMetaspace)) {
        token.erase(0, std::string_view(kMetaspace).size());
      }
      token = utf8::replaced(token, kMetaspace, " ");
    }
    return tokens;
  };
}

Decode make_decoder_sequence(const json& part) {
  std::vector<Decode> inner;
  for (const auto& one : part.at("decoders")) inner.push_back(make_decoder(one));
  return [inner](Tokens tokens) {
    for (const auto& step : inner) tokens = step(std::move(tokens));
    return tokens;
  };
}

}  // namespace

Decode make_decoder(const json& part) {
  // tokenizers puts a space between tokens where there is no decoder: no supported family has none.
  if (part.is_null()) throw Unsupported("a tokenizer without decoder");
  const auto type = type_of(part);
  if (type == "ByteLevel") {
    return for_each_token(
        [](const auto& token) { return byte_alphabet::to_bytes(token).value_or(token); });
  }
  if (type == "Replace") return make_replacing_decoder(part);
  if (type == "ByteFallback") return decode_bytes;
  if (type == "Fuse") return [](const Tokens& tokens) { return Tokens{joined(tokens)}; };
  if (type == "Metaspace") return make_metaspace_decoder(part);
  if (type == "Sequence") return make_decoder_sequence(part);
  if (type == "Strip") {
    const auto content = part.at("content").get<std::string>();
    const auto start = part.at("start").get<size_t>();
    const auto stop = part.at("stop").get<size_t>();
    return for_each_token([content, start, stop](const auto& token) {
      return stripped(token, content, start, stop);
    });
  }
  unsupported("decoder", part);
}

// ---- Post-processors
// -----------------------------------------------------------------------------

namespace {

void append(Template& whole, const Template& part) {
  whole.before.insert(whole.before.begin(), part.before.begin(), part.before.end());
  whole.after.insert(whole.after.end(), part.after.begin(), part.after.end());
}

Template read_template(const json& part) {
  Template around;
  bool text_seen = false;
  for (const auto& piece : part.at("single")) {
    if (piece.contains("Sequence")) {
      text_seen = true;
      continue;
    }
    const auto name = piece.at("SpecialToken").at("id").get<std::string>();
    const auto ids = part.at("special_tokens").at(name).at("ids").get<std::vector<int64_t>>();
    auto& side = text_seen ? around.after : around.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  return around;
}

}  // namespace

Template make_template(const json& part) {
  if (part.is_null()) return {};
  const auto type = type_of(part);
  if (type == "ByteLevel") return {};  // only offsets change
  if (type == "TemplateProcessing") return read_template(part);
  if (type != "Sequence") unsupported("post-processor", part);
  Template around;
  for (const auto& one : part.at("processors")) append(around, make_template(one));
  return around;
}

}  // namespace remat::models::steps
