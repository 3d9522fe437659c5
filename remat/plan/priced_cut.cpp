#include "remat/plan/priced_cut.h"

#include <algorithm>
#include <cmath>

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// Flows are whole numbers of this part of a microsecond.
constexpr double kGrain = 1000;
/// Far above every sum of costs, far below overflow when all of them are added.
constexpr double kDearest = 1e15;

MaxFlow::Capacity capacity(double us) { return std::llround(std::min(us * kGrain, kDearest)); }

}  // namespace

// Operators on the source's side run again, values on it are asked for; an asked value whose
// producer is on the sink's side is kept, and its edge cut.
PricedCut::PricedCut(const Trace& trace, std::span<const ValueId> needed)
    : trace_(trace),
      flow_(trace.ops() + trace.values() + 2, trace.ops() + trace.values(),
            trace.ops() + trace.values() + 1),
      op_edge_(at(trace.ops()), kNone),
      value_edge_(at(trace.values()), kNone),
      price_(at(trace.values())) {
  const MaxFlow::Node source = trace.ops() + trace.values();
  std::vector<uint8_t> asked(at(trace.values()));
  const auto need = [&](ValueId value) {
    asked[at(value)] = 1;
    flow_.add(source, node(value), MaxFlow::kUnlimited);
  };
  for (const ValueId value : needed) need(value);
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (needed.empty() && trace.saved(value)) need(value);
  }
  for (OpId op = trace.ops() - 1; op >= 0; --op) {
    for (const ValueId value : trace.makes(op)) {
      if (asked[at(value)] == 0) continue;
      value_edge_[at(value)] = flow_.add(node(value), op, 0);
      if (op_edge_[at(op)] == kNone) op_edge_[at(op)] = flow_.add(op, source + 1, 0);
    }
    if (op_edge_[at(op)] == kNone) continue;
    for (const ValueId value : trace.reads(op)) {
      asked[at(value)] = 1;
      if (trace.producer(value) != kNone) flow_.add(op, node(value), MaxFlow::kUnlimited);
    }
  }
  empty_ = flow_.state();
}

void PricedCut::solve(std::span<const double> cost, std::span<const double> price) {
  flow_.restore(empty_);
  std::fill(price_.begin(), price_.end(), 0);
  for (OpId op = 0; op < trace_.ops(); ++op) {
    if (op_edge_[at(op)] != kNone) flow_.grow(op_edge_[at(op)], capacity(cost[at(op)]));
  }
  raise(price);
}

void PricedCut::raise(std::span<const double> price) {
  for (ValueId value = 0; value < trace_.values(); ++value) {
    if (value_edge_[at(value)] == kNone) continue;
    const auto wanted = capacity(price[at(value)]);
    flow_.grow(value_edge_[at(value)], wanted - price_[at(value)]);
    price_[at(value)] = wanted;
  }
  flow_.run();
}

KeepSet PricedCut::keep() const {
  KeepSet keep(at(trace_.values()));
  for (ValueId value = 0; value < trace_.values(); ++value) {
    keep[at(value)] = value_edge_[at(value)] != kNone && flow_.at_source(node(value)) &&
                      !flow_.at_source(trace_.producer(value));
  }
  return keep;
}

double PricedCut::objective() const { return static_cast<double>(flow_.flow()) / kGrain; }

bool PricedCut::replays(OpId op) const { return op_edge_[at(op)] != kNone && flow_.at_source(op); }

void PricedCut::restore(State state) {
  flow_.restore(state.flow);
  price_ = std::move(state.price);
}

}  // namespace remat::plan
