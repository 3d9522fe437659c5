// Modules with state of their own: running statistics are updated once, workspaces are made again.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

TEST(BatchNormTest, RunningStatisticsAreUpdatedOnce) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        return at::batch_norm(in[0] * 2, in[1], in[2], in[3], in[4], true, 0.1, 1e-5, true).exp();
      },
      {leaf({8, 4}), leaf({4}, 2), leaf({4}, 3), at::zeros({4}), at::ones({4})});
}

TEST(BatchNormTest, WithoutTrainingReadsItsStatistics) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        return at::batch_norm(in[0] * 2, in[1], in[2], in[3], in[4], false, 0.1, 1e-5, true).exp();
      },
      {leaf({8, 4}), leaf({4}, 2), leaf({4}, 3), constant({4}, 4), constant({4}, 5).abs()});
}

TEST(BatchNormTest, EvaluationAfterTrainingInOneRegion) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const auto norm = [&](bool training) {
          return at::batch_norm(in[0] * 2, in[1], in[2], in[3], in[4], training, 0.1, 1e-5, true)
              .exp();
        };
        return norm(false) * norm(true) * norm(false);
      },
      {leaf({8, 4}), leaf({4}, 2), leaf({4}, 3), at::zeros({4}), at::ones({4})});
}

Tensors lstm_inputs() {
  return {leaf({5, 2, 3}),  leaf({1, 2, 4}, 2), leaf({1, 2, 4}, 3), leaf({16, 3}, 4),
          leaf({16, 4}, 5), leaf({16}, 6),      leaf({16}, 7)};
}

at::Tensor lstm(const Tensors& in) {
  const std::vector<at::Tensor> state = {in[1], in[2]};
  const std::vector<at::Tensor> weights(in.begin() + 3, in.end());
  return std::get<0>(at::lstm(in[0] * 2, state, weights, true, 1, 0.0, true, false, false)).exp();
}

TEST(LstmTest, IsReplayedWithOneDnn) { expect_replayed_as_plain(lstm, lstm_inputs()); }

TEST(LstmTest, IsReplayedWithoutOneDnn) {
  at::globalContext().setUserEnabledMkldnn(false);
  expect_replayed_as_plain(lstm, lstm_inputs());
  at::globalContext().setUserEnabledMkldnn(true);
}

TEST(LstmTest, GruIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const std::vector<at::Tensor> weights(in.begin() + 2, in.end());
        return std::get<0>(at::gru(in[0] * 2, in[1], weights, true, 1, 0.0, true, false, false))
            .exp();
      },
      {leaf({5, 2, 3}), leaf({1, 2, 4}, 2), leaf({12, 3}, 4), leaf({12, 4}, 5), leaf({12}, 6),
       leaf({12}, 7)});
}

}  // namespace
}  // namespace remat::testing
