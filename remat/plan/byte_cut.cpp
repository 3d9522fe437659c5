#include "remat/plan/byte_cut.h"

#include <utility>

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

constexpr double kFirst = 1.0 / 64;  ///< of the typical price
constexpr double kGrowth = 1.8;
constexpr int kMostRaises = 60;
constexpr int kHalvings = 8;

}  // namespace

double typical_us_per_byte(const Trace& trace) {
  double us = 0;
  double bytes = 1;
  for (OpId op = 0; op < trace.ops(); ++op) us += trace.us(op);
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (trace.saved(value)) bytes += static_cast<double>(trace.bytes(value));
  }
  return us / bytes;
}

ByteCut::ByteCut(const Trace& trace, std::span<const ValueId> needed, std::vector<uint8_t> free)
    : trace_(trace),
      cut_(trace, needed),
      free_(std::move(free)),
      cost_(at(trace.ops())),
      price_(at(trace.values())) {
  for (OpId op = 0; op < trace.ops(); ++op) cost_[at(op)] = trace.us(op);
}

bool ByteCut::search(const std::function<bool()>& fits) {
  double low = 0;
  double high = typical_us_per_byte(trace_) * kFirst;
  set(high);
  cut_.solve(cost_, price_);
  auto last_over = cut_.state();
  for (int raises = 0; !fits(); ++raises) {
    if (raises == kMostRaises || paid_bytes() == 0) return false;
    last_over = cut_.state();
    low = high;
    set(high *= kGrowth);
    cut_.raise(price_);
  }
  for (int i = 0; i < kHalvings && low > 0; ++i) {
    const double middle = (low + high) / 2;
    cut_.restore(last_over);
    set(middle);
    cut_.raise(price_);
    if (fits()) {
      high = middle;
    } else {
      low = middle;
      last_over = cut_.state();
    }
  }
  return true;
}

int64_t ByteCut::paid_bytes() const {
  const KeepSet keep = cut_.keep();
  int64_t bytes = 0;
  for (ValueId value = 0; value < trace_.values(); ++value) {
    if (keep[at(value)] != 0 && free_[at(value)] == 0) bytes += trace_.bytes(value);
  }
  return bytes;
}

void ByteCut::set(double us_per_byte) {
  us_per_byte_ = us_per_byte;
  for (ValueId value = 0; value < trace_.values(); ++value) {
    const bool free = free_[at(value)] != 0;
    price_[at(value)] = free ? 0 : us_per_byte * static_cast<double>(trace_.bytes(value));
  }
}

}  // namespace remat::plan
