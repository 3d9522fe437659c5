#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// The checkpoints of a training in its output folder: OUT/checkpoint-000200, and OUT/latest, a
/// link to the newest. A checkpoint appears complete or not at all, whenever the process dies.
namespace remat::finetune {

using Warn = std::function<void(const std::string&)>;

/// Calls `fill(folder)` on a new folder beside, waits until its files are on the disk, and gives it
/// its name. Throws what `fill` throws, and Error{runtime} for the disk's reasons; the folder
/// beside is then removed and what was there before is untouched.
void save_folder(const std::filesystem::path& target,
                 const std::function<void(const std::filesystem::path&)>& fill);

class Checkpoints {
 public:
  /// `limit`: how many are left after a save; 0 is all of them.
  Checkpoints(std::filesystem::path output, size_t limit)
      : output_(std::move(output)), limit_(limit) {}

  /// Saves checkpoint-STEP, moves the link `latest`, and removes the oldest ones above the limit.
  /// Returns its folder.
  std::filesystem::path save(int64_t step,
                             const std::function<void(const std::filesystem::path&)>& fill) const;

  /// The newest complete checkpoint, empty if there is none. Warns of each that it passes over.
  [[nodiscard]] std::filesystem::path newest(const Warn& warn) const;

  /// Removes what a killed save left behind. Called at a start, when nobody is saving.
  void clean() const;
  /// Removes every checkpoint.
  void clear() const;

 private:
  [[nodiscard]] std::vector<std::filesystem::path> all() const;  ///< ascending by step
  void link_latest(const std::filesystem::path& folder) const;
  void prune() const;

  std::filesystem::path output_;
  size_t limit_;
};

}  // namespace remat::finetune
