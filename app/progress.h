#pragma once

#include <cstdint>
#include <string>

#include "finetune/listener.h"

namespace remat::app {

/// A training on the terminal: a line a step, and below it a bar that the next line replaces. Where
/// the output is no terminal, lines alone.
class Progress final : public finetune::Listener {
 public:
  enum class Style : uint8_t { plain, bar };

  explicit Progress(Style style) : style_(style) {}
  ~Progress() override;

  void on_start(const finetune::StartReport& report) override;
  void on_step(const finetune::StepReport& report) override;
  void on_evaluation(const finetune::EvalReport& report) override;
  void on_sample(int64_t step, const std::string& text) override;
  void on_save(const finetune::SaveReport& report) override;
  void on_warning(const std::string& text) override;

 private:
  void line(const std::string& text);
  void draw_bar();
  void erase_bar();

  Style style_;
  std::string bar_;  ///< what is drawn below the last line; empty: nothing
};

/// The bar on a terminal that may be written over, unless NO_COLOR or TERM=dumb ask for plain text.
Progress::Style progress_style();

/// "1:02:03", "2:03".
std::string duration_text(double seconds);
/// "1,289.4 MiB": one unit everywhere, so that columns compare at a glance.
std::string bytes_text(int64_t bytes);

}  // namespace remat::app
