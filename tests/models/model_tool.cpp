// What the Python tests ask of a decoder and a tokenizer, as a program:
//
//   model_tool logits FOLDER IN.safetensors OUT.safetensors    of "tokens" (B, T), and "positions"
//                                                              and "documents" where IN has them
//   model_tool cached FOLDER IN.safetensors OUT.safetensors    the same, the first half of the
//                                                              tokens at once, then one by one
//   model_tool gradients FOLDER IN.safetensors OUT.safetensors of the mean cross entropy
//   model_tool save FOLDER OUT SHARD_BYTES                     reads a model and writes it again
//   model_tool tokenize FOLDER IN.json OUT.json                strings to {"ids", "text"}

#include <fstream>
#include <iostream>
#include <string_view>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <nlohmann/json.hpp>

#include "models/folder.h"
#include "models/safetensors.h"
#include "models/tokenizer.h"

namespace {

using remat::models::Decoder;
using remat::models::Inputs;

Inputs read_inputs(const std::string& path) {
  const remat::models::safetensors::File file(path);
  Inputs inputs;
  inputs.tokens = file.read("tokens");
  if (file.find("positions") != nullptr) inputs.positions = file.read("positions");
  if (file.find("documents") != nullptr) inputs.documents = file.read("documents");
  return inputs;
}

at::Tensor logits(const Decoder& decoder, const Inputs& inputs) {
  return decoder.logits(decoder.hidden_states(inputs));
}

at::Tensor cached_logits(const Decoder& decoder, const at::Tensor& tokens) {
  remat::models::KvCache cache(decoder.config, tokens.size(0), tokens.size(1), decoder.dtype());
  const int64_t half = tokens.size(1) / 2;
  const auto next = [&](int64_t from, int64_t count) {
    return logits(decoder, {tokens.narrow(1, from, count), {}, {}, &cache});
  };
  std::vector<at::Tensor> parts{next(0, half), next(half, 3)};
  for (int64_t at = half + 3; at < tokens.size(1); ++at) parts.push_back(next(at, 1));
  return at::cat(parts, 1);
}

remat::models::safetensors::NamedTensors gradients(const Decoder& decoder, const Inputs& inputs) {
  const auto parameters = decoder.named_parameters();
  for (const auto& [_, parameter] : parameters) parameter.requires_grad_();
  const auto predicted = logits(decoder, inputs).slice(1, 0, -1).flatten(0, 1);
  at::cross_entropy_loss(predicted, inputs.tokens.slice(1, 1).flatten()).backward();
  remat::models::safetensors::NamedTensors named;
  for (const auto& [name, parameter] : parameters) named.emplace_back(name, parameter.grad());
  return named;
}

int tokenize(const std::string& folder, const std::string& in, const std::string& out) {
  const remat::models::Tokenizer tokenizer(folder);
  auto results = nlohmann::json::array();
  std::ifstream file(in);
  for (const auto& text : nlohmann::json::parse(file)) {
    const auto ids = tokenizer.encode(text.get<std::string>());
    results.push_back({{"ids", ids}, {"text", tokenizer.decode(ids, /*skip_special=*/false)}});
  }
  std::ofstream(out) << results;
  return 0;
}

int run(const std::vector<std::string>& words) {
  const std::string& command = words.at(0);
  if (command == "tokenize") return tokenize(words.at(1), words.at(2), words.at(3));
  const auto decoder = remat::models::load_model(words.at(1));
  if (command == "save") {
    remat::models::save_model(decoder, words.at(1), words.at(2), std::stoll(words.at(3)));
    return 0;
  }
  const auto inputs = read_inputs(words.at(2));
  if (command == "gradients") {
    remat::models::safetensors::write(words.at(3), gradients(decoder, inputs));
    return 0;
  }
  const c10::AutoGradMode no_grad(false);
  const auto result =
      command == "cached" ? cached_logits(decoder, inputs.tokens) : logits(decoder, inputs);
  remat::models::safetensors::write(words.at(3), {{"logits", result}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
