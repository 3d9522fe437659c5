#pragma once

#include <stdexcept>
#include <string>

namespace remat::finetune {

/// Whose fault an error is. The number is the exit code of the command line.
enum class Fault {
  runtime = 1,     ///< the machine's (a full disk) or ours
  usage = 2,       ///< a flag or a key of the configuration
  data = 3,        ///< the data set
  budget = 4,      ///< it does not fit the memory that was named
  memory = 5,      ///< out of memory while running
  model = 6,       ///< a model, adapter or checkpoint is invalid, or is not the one that is needed
  non_finite = 7,  ///< the loss is not a number any more
};

/// An error that a user can act on: its text names the thing, the cause and the way out.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  [[nodiscard]] Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

}  // namespace remat::finetune
