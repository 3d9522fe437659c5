#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "remat/plan/priced_cut.h"

namespace remat::plan {

/// Priced cuts with one price a byte, and operators at their measured time.
class ByteCut {
 public:
  /// `needed` as in PricedCut; values flagged in `free` cost nothing.
  ByteCut(const Trace& trace, std::span<const ValueId> needed, std::vector<uint8_t> free);

  /// Raises the price from where hardly anything is worth dropping until `fits` accepts the cut,
  /// then halves the distance between the last two some times. `fits` is asked at every price and
  /// sees the cut through the functions below. False when it accepts none, not even the cut that
  /// keeps nothing but free values.
  bool search(const std::function<bool()>& fits);

  [[nodiscard]] double us_per_byte() const { return us_per_byte_; }
  [[nodiscard]] KeepSet keep() const { return cut_.keep(); }
  [[nodiscard]] double objective() const { return cut_.objective(); }
  /// Bytes kept that are not free.
  [[nodiscard]] int64_t paid_bytes() const;

 private:
  void set(double us_per_byte);

  const Trace& trace_;
  PricedCut cut_;
  std::vector<uint8_t> free_;
  std::vector<double> cost_;
  std::vector<double> price_;
  double us_per_byte_ = 0;
};

/// All recomputation for all saved bytes: what a byte is worth is looked for around this.
double typical_us_per_byte(const Trace& trace);

}  // namespace remat::plan
