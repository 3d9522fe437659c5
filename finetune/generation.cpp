#include "finetune/generation.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "finetune/error.h"

namespace remat::finetune {

namespace {

void check(const std::vector<int64_t>& prompt, const GenerationConfig& config) {
  if (prompt.empty()) throw Error(Fault::usage, "the prompt is empty: give it at least one word");
  if (config.temperature < 0) throw Error(Fault::usage, "temperature must not be negative");
  if (config.top_p <= 0 || config.top_p > 1)
    throw Error(Fault::usage, "top_p must be above 0 and at most 1");
}

/// Draws from the nucleus (Holtzman et al. 2019, arXiv 1904.09751). `logits`: [vocabulary].
int64_t draw(const at::Tensor& logits, const GenerationConfig& config, at::Generator& random) {
  auto [chances, order] = at::softmax(logits / config.temperature, -1).sort(-1, true);
  // What comes before a token decides whether it is in: the likeliest always is.
  const auto outside = (chances.cumsum(-1) - chances).ge(config.top_p);
  chances.masked_fill_(outside, 0);
  return order[at::multinomial(chances, 1, false, random).item<int64_t>()].item<int64_t>();
}

int64_t next_token(const models::Decoder& decoder, const at::Tensor& hidden,
                   const GenerationConfig& config, at::Generator& random) {
  const auto logits = decoder.logits(hidden.select(1, hidden.size(1) - 1)).to(at::kFloat)[0];
  if (config.temperature == 0) return logits.argmax().item<int64_t>();
  return draw(logits, config, random);
}

}  // namespace

std::vector<int64_t> generate(const models::Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerationConfig& config,
                              const std::function<bool(int64_t)>& on_token) {
  check(prompt, config);
  const at::NoGradGuard no_grad;
  // Its own generator: a sample in the middle of a training must not move the training's.
  auto random = at::make_generator<at::CPUGeneratorImpl>(config.seed);
  const auto length = static_cast<int64_t>(prompt.size());
  models::KvCache cache(decoder.config, 1, length + config.max_new_tokens, decoder.dtype());

  const auto& ends = decoder.config.eos_token_ids;
  std::vector<int64_t> generated;
  models::Inputs inputs;
  inputs.tokens = at::tensor(prompt, at::kLong).unsqueeze(0);
  inputs.cache = &cache;
  while (static_cast<int64_t>(generated.size()) < config.max_new_tokens) {
    const auto hidden = decoder.hidden_states(inputs);
    const int64_t token = next_token(decoder, hidden, config, random);
    if (std::ranges::find(ends, token) != ends.end()) break;
    generated.push_back(token);
    if (on_token && !on_token(token)) break;
    inputs.tokens = at::full({1, 1}, token, at::kLong);
  }
  return generated;
}

}  // namespace remat::finetune
