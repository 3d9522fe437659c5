#include "finetune/loss.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace remat::finetune {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One pass over the head in chunks of tokens: the losses, and the gradients that are wanted.
class Pass {
 public:
  Pass(const at::Tensor& hidden, const at::Tensor& weight, double scale, bool wants_hidden,
       bool wants_weight)
      : hidden_(hidden), weight_(weight), scale_(scale) {
    if (wants_hidden) hidden_grad = at::zeros_like(hidden);
    // In float32 whatever the weight's type: sums over thousands of tokens.
    if (wants_weight) weight_grad = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
  }

  /// The loss of each of the tokens `at`, [n] of float32.
  at::Tensor chunk(const at::Tensor& at, const at::Tensor& labels) {
    const auto states = hidden_.index_select(0, at).to(weight_.scalar_type());
    auto logits = states.mm(weight_.t()).to(at::kFloat);
    const auto target = labels.unsqueeze(1);
    const auto of_target = logits.gather(1, target);
    const auto highest = logits.amax(1, /*keepdim=*/true);
    // In place from here on: each copy would be as large as the logits.
    auto& exponents = logits.sub_(highest).exp_();
    const auto sum = exponents.sum(1, /*keepdim=*/true);
    const auto losses = (sum.log() + highest - of_target).squeeze(1);
    if (hidden_grad.defined() || weight_grad.defined()) {
      backward(at, states, exponents.div_(sum), target);
    }
    return losses;
  }

  at::Tensor hidden_grad;  ///< as hidden; undefined if not wanted
  at::Tensor weight_grad;  ///< as weight, float32; undefined if not wanted

 private:
  void backward(const at::Tensor& at, const at::Tensor& states, at::Tensor& probabilities,
                const at::Tensor& target) {
    auto& grad =
        probabilities.scatter_add_(1, target, at::full_like(target, -1, probabilities.options()))
            .mul_(scale_);
    const auto logits_grad = grad.to(weight_.scalar_type());
    if (hidden_grad.defined()) {
      hidden_grad.index_copy_(0, at, logits_grad.mm(weight_).to(hidden_.scalar_type()));
    }
    if (weight_grad.defined()) weight_grad.add_(logits_grad.t().mm(states));
  }

  at::Tensor hidden_;  ///< [tokens, h]
  at::Tensor weight_;  ///< [vocabulary, h], in the type that the head runs in
  double scale_;
};

at::Tensor in_head_type(const at::Tensor& weight) {
  return at::autocast::is_autocast_enabled(at::kCPU)
             ? weight.to(at::autocast::get_autocast_dtype(at::kCPU))
             : weight;
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& labels, double scale,
                            int64_t rows, bool wants_hidden, bool wants_weight) {
    const auto head = in_head_type(weight);
    // Every type below is chosen; autocast would turn the float32 gradient of a weight to bfloat16.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(
        c10::DispatchKeySet(c10::DispatchKey::AutocastCPU));
    const auto flat = hidden.reshape({-1, hidden.size(-1)});
    const auto targets = labels.reshape({-1});
    const auto trained = targets.ne(kIgnored).nonzero().squeeze(1);

    Pass pass(flat, head, scale, wants_hidden, wants_weight);
    std::vector<at::Tensor> losses{at::zeros({1}, hidden.options().dtype(at::kFloat))};
    for (int64_t at = 0; at < trained.size(0); at += rows) {
      const auto some = trained.narrow(0, at, std::min(rows, trained.size(0) - at));
      losses.push_back(pass.chunk(some, targets.index_select(0, some)));
    }
    // Not save_for_backward: inside a region that would drop the gradients and run the whole head
    // a second time. They are results of nobody's graph, so that no cycle comes of it.
    if (wants_hidden) context->saved_data["hidden"] = pass.hidden_grad.view(hidden.sizes());
    if (wants_weight) context->saved_data["weight"] = pass.weight_grad.to(weight.scalar_type());
    return at::cat(losses).sum().mul_(scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    TORCH_CHECK(!context->saved_data.empty(),
                "remat: backward through chunked_cross_entropy a second time; its gradients were "
                "given away. Compute the loss again.");
    // Given away and scaled in place: the head's gradient is as large as the head.
    const auto made = std::exchange(context->saved_data, {});
    const auto scaled = [&](const char* name) {
      const auto found = made.find(name);
      return found == made.end() ? at::Tensor() : found->second.toTensor().mul_(grads[0]);
    };
    return {scaled("hidden"), scaled("weight"), {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor chunked_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                 const at::Tensor& labels, double scale, int64_t rows) {
  const bool grad = at::GradMode::is_enabled();
  return CrossEntropy::apply(hidden, weight, labels, scale, rows, grad && hidden.requires_grad(),
                             grad && weight.requires_grad());
}

}  // namespace remat::finetune
