#include "finetune/activation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "finetune/error.h"
#include "remat/policy/parse.h"
#include "remat/region.h"

namespace remat::finetune {

namespace {

std::vector<Span> groups(size_t count, size_t layers) {
  std::vector<Span> spans;
  for (size_t at = 0; at < count; ++at) {
    spans.push_back({at * layers / count, (at + 1) * layers / count});
  }
  return spans;
}

std::vector<Span> every(size_t n, size_t layers) {
  std::vector<Span> spans;
  for (size_t at = 0; at < layers; at += n) {
    spans.push_back({at, at + 1});
    if (n > 1 && at + 1 < layers) spans.push_back({at + 1, std::min(at + n, layers), false});
  }
  return spans;
}

/// The N of every:N; nothing if it is no positive number.
std::optional<size_t> interval(std::string_view setting) {
  constexpr std::string_view prefix = "every:";
  if (!setting.starts_with(prefix)) return std::nullopt;
  setting.remove_prefix(prefix.size());
  size_t n = 0;
  const auto [end, error] = std::from_chars(setting.begin(), setting.end(), n);
  const bool valid = error == std::errc() && end == setting.end() && n > 0;
  return valid ? std::optional(n) : std::nullopt;
}

/// The spans by the name of the setting; nothing if it is none of the names.
std::optional<std::vector<Span>> spans_of(std::string_view setting, size_t layers) {
  if (setting == "none") return std::vector<Span>{{0, layers, false}};
  if (setting == "full") return every(1, layers);
  if (setting == "sqrt")
    return groups(static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(layers)))), layers);
  if (const auto n = interval(setting)) return every(*n, layers);
  return std::nullopt;
}

[[noreturn]] void reject(std::string_view setting, const std::string& why) {
  throw Error(Fault::usage, "activation_checkpointing is '" + std::string(setting) +
                                "': it can be none, full, sqrt, or every:N with N of 1 or more; a "
                                "policy, such as dots_saveable; or both, such as 'sqrt + "
                                "dots_saveable'" +
                                why);
}

policy::Policy policy_of(std::string_view text, std::string_view setting) {
  try {
    auto policy = policy::parse(text);
    if (policy.wants().names)
      reject(setting, ". The models' values have no names: choose by operator, module or size");
    return policy;
  } catch (const std::invalid_argument& error) {
    reject(setting, std::string(". ") + error.what());
  }
}

std::string_view trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

using Layers = std::vector<models::RunLayer>;

at::Tensor run(const Span& span, const policy::Policy& policy, const Layers& layers,
               at::Tensor hidden) {
  std::optional<Region> region;
  if (span.recomputed) region.emplace(RegionOptions{.policy = policy});
  for (size_t at = span.begin; at < span.end; ++at) {
    if (region) region->set_module("model.layers." + std::to_string(at));
    hidden = layers[at](std::move(hidden));
  }
  if (region) region->close();
  return hidden;
}

}  // namespace

Recomputation recomputation_of(std::string_view setting, size_t layers) {
  const auto plus = setting.find('+');
  auto spans = spans_of(trimmed(setting.substr(0, plus)), layers);
  if (plus == std::string_view::npos) {
    if (spans) return {std::move(*spans), policy::nothing_saveable()};
    return {every(1, layers), policy_of(setting, setting)};
  }
  if (!spans) reject(setting, "");
  if (!spans->front().recomputed) reject(setting, ". none keeps everything: leave the policy out");
  return {std::move(*spans), policy_of(trimmed(setting.substr(plus + 1)), setting)};
}

models::RunLayers run_with_recomputation(std::string_view setting, size_t layers) {
  return [chosen = recomputation_of(setting, layers)](const Layers& all, at::Tensor hidden) {
    for (const auto& span : chosen.spans) hidden = run(span, chosen.policy, all, std::move(hidden));
    return hidden;
  };
}

}  // namespace remat::finetune
