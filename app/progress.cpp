#include "app/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>

namespace remat::app {

namespace {

constexpr int64_t kBarWidth = 30;

/// "1,234,567".
std::string grouped(int64_t number) {
  auto digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string bar_text(int64_t step, int64_t steps, double seconds_left) {
  const int64_t done = kBarWidth * step / std::max<int64_t>(steps, 1);
  std::string bar;
  for (int64_t at = 0; at < kBarWidth; ++at) bar += at < done ? "█" : "·";
  return fmt::format("  {} {:3} %  {} left", bar, 100 * step / std::max<int64_t>(steps, 1),
                     duration_text(seconds_left));
}

}  // namespace

Progress::Style progress_style() {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool plain = std::getenv("NO_COLOR") != nullptr || dumb || isatty(STDOUT_FILENO) == 0;
  return plain ? Progress::Style::plain : Progress::Style::bar;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  const int64_t minutes = whole / 60;
  if (minutes < 60) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, whole % 60);
}

std::string bytes_text(int64_t bytes) {
  const int64_t tenths = (bytes * 10 + (1 << 19)) >> 20;
  return fmt::format("{}.{} MiB", grouped(tenths / 10), tenths % 10);
}

Progress::~Progress() { erase_bar(); }

void Progress::on_start(const finetune::StartReport& report) {
  line(fmt::format(" model  {} parameters, {} trained; weights {}", grouped(report.parameters),
                   grouped(report.trained_parameters), bytes_text(report.weight_bytes)));
  line(
      fmt::format(" data   {} rows, {} tokens, {} trained on; longest row {}; {} rows cut; {} rows "
                  "to evaluate on",
                  grouped(report.rows), grouped(report.tokens), grouped(report.trained_tokens),
                  report.longest_row, report.truncated_rows, grouped(report.eval_rows)));
  line(fmt::format(" batch  {} x {} rows a step", report.accumulation, report.batch_size));
  if (report.first_step > 0) line(fmt::format(" resume after step {}", report.first_step));
  line(fmt::format("{:>13} {:>9} {:>9} {:>8} {:>9} {:>14} {:>9}", "step", "loss", "lr", "gnorm",
                   "tokens/s", "peak", "eta"));
}

void Progress::on_step(const finetune::StepReport& report) {
  bar_ = bar_text(report.step, report.steps, report.seconds_left);
  line(fmt::format("{:>6}/{:<6} {:>9.4f} {:>9.2e} {:>8.3f} {:>9.1f} {:>14} {:>9}", report.step,
                   report.steps, report.loss, report.learning_rate, report.grad_norm,
                   report.tokens_per_second, bytes_text(report.peak_bytes),
                   duration_text(report.seconds_left)));
}

void Progress::on_evaluation(const finetune::EvalReport& report) {
  line(fmt::format(" eval   step {}: loss {:.4f}, perplexity {:.3f} ({} rows, {} tokens, {:.1f} s)",
                   report.step, report.loss, report.perplexity, grouped(report.rows),
                   grouped(report.tokens), report.seconds));
}

void Progress::on_sample(int64_t step, const std::string& text) {
  line(fmt::format(" sample step {}: {}", step, text));
}

void Progress::on_save(const finetune::SaveReport& report) {
  line(fmt::format(" save   {} ({}, {:.1f} s)", report.folder.string(), bytes_text(report.bytes),
                   report.seconds));
}

void Progress::on_warning(const std::string& text) {
  erase_bar();
  std::cerr << "warning: " << text << std::endl;
  draw_bar();
}

void Progress::line(const std::string& text) {
  erase_bar();
  std::cout << text << "\n";
  draw_bar();
  std::cout.flush();
}

void Progress::draw_bar() {
  if (style_ == Style::bar) std::cout << bar_ << std::flush;
}

void Progress::erase_bar() {
  if (style_ == Style::bar) std::cout << "\r\033[2K" << std::flush;
}

}  // namespace remat::app
