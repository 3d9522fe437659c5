#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace remat::finetune {

/// A label that is not trained on.
constexpr int64_t kIgnored = -100;

/// Cross entropy of a language model, without ever holding its logits.
///
///  hidden: [..., h], the states that the head reads;
///  weight: [vocabulary, h], of the head;
///  labels: int64 of hidden's leading sizes, each a token or kIgnored;
///  scale: what the sum over tokens is multiplied with, 1 / (tokens of the whole step).
///
/// Returns a float32 scalar. Of the logits only `rows` rows exist at a time, in float32: 4 * rows *
/// vocabulary bytes. The gradient is made in the same pass, because logits that are gone would
/// have to be computed a second time in backward (as Wijmans et al. 2024, arXiv 2411.09009, do
/// per block; this is the simpler form of Liger Kernel's FusedLinearCrossEntropy, arXiv
/// 2410.10989). Under CPU autocast the head runs in autocast's type and the softmax in float32,
/// as in transformers. Backward runs once: a second time throws c10::Error.
at::Tensor chunked_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                 const at::Tensor& labels, double scale, int64_t rows = 128);

}  // namespace remat::finetune
