#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "finetune/batch.h"
#include "finetune/lora.h"
#include "finetune/settings.h"
#include "models/decoder.h"

namespace remat::finetune {

/// A decoder under training: all of it, or adapters on it. Its loss is what a step minimises.
class Model {
 public:
  /// Loads the decoder, and freezes it under adapters with method lora. A fresh adapter is drawn
  /// from settings.seed. `checkpoint`: where to take the trained weights from instead; empty: none.
  /// Throws models::Error and Error.
  Model(const Settings& settings, const std::filesystem::path& checkpoint);

  /// The sum of the batch's losses times `scale`, in float32.
  [[nodiscard]] at::Tensor loss(const Batch& batch, double scale) const;

  /// What is trained, by its name in files.
  [[nodiscard]] NamedTensors trained() const;
  [[nodiscard]] const models::Decoder& decoder() const { return *decoder_; }

  /// Writes what is trained: a folder that PEFT loads, or a whole model that transformers loads.
  void save(const std::filesystem::path& folder) const;

 private:
  std::string source_;  ///< the folder of the base model
  std::unique_ptr<models::Decoder> decoder_;
  std::optional<Lora> lora_;
  models::RunLayers run_layers_;
  bool bf16_;
};

/// Of --dtype; nothing for auto. Throws Error{usage} on another name.
std::optional<at::ScalarType> weight_type(const std::string& name);

/// CPU autocast to bfloat16 while it lives, if `on`.
class Autocast {
 public:
  explicit Autocast(bool on);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  bool was_on_;
  at::ScalarType type_before_;
};

}  // namespace remat::finetune
