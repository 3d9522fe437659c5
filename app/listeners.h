#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "finetune/listener.h"

namespace remat::app {

/// Tells several listeners, in order. They outlive it.
class Listeners final : public finetune::Listener {
 public:
  Listeners(std::initializer_list<finetune::Listener*> all) : all_(all) {}

  void on_start(const finetune::StartReport& report) override {
    for (auto* one : all_) one->on_start(report);
  }
  void on_step(const finetune::StepReport& report) override {
    for (auto* one : all_) one->on_step(report);
  }
  void on_evaluation(const finetune::EvalReport& report) override {
    for (auto* one : all_) one->on_evaluation(report);
  }
  void on_sample(int64_t step, const std::string& text) override {
    for (auto* one : all_) one->on_sample(step, text);
  }
  void on_save(const finetune::SaveReport& report) override {
    for (auto* one : all_) one->on_save(report);
  }
  void on_warning(const std::string& text) override {
    for (auto* one : all_) one->on_warning(text);
  }

 private:
  std::vector<finetune::Listener*> all_;
};

}  // namespace remat::app
