#include "finetune/activation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "finetune/error.h"
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

using Layers = std::vector<models::RunLayer>;

at::Tensor run_span(const Span& span, const Layers& layers, at::Tensor hidden) {
  for (size_t at = span.begin; at < span.end; ++at) hidden = layers[at](std::move(hidden));
  return hidden;
}

at::Tensor run(const std::vector<Span>& spans, const Layers& layers, at::Tensor hidden) {
  for (const auto& span : spans) {
    if (!span.recomputed) {
      hidden = run_span(span, layers, std::move(hidden));
      continue;
    }
    Region region;
    hidden = run_span(span, layers, std::move(hidden));
    region.close();
  }
  return hidden;
}

}  // namespace

std::vector<Span> activation_spans(std::string_view setting, size_t layers) {
  if (setting == "none") return {{0, layers, false}};
  if (setting == "full") return every(1, layers);
  if (setting == "sqrt") {
    return groups(static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(layers)))), layers);
  }
  if (const auto n = interval(setting)) return every(*n, layers);
  throw Error(Fault::usage, "activation_checkpointing is '" + std::string(setting) +
                                "': it can be none, full, sqrt, or every:N with N of 1 or more");
}

models::RunLayers run_with_recomputation(std::string_view setting, size_t layers) {
  return [spans = activation_spans(setting, layers)](const Layers& all, at::Tensor hidden) {
    return run(spans, all, std::move(hidden));
  };
}

}  // namespace remat::finetune
