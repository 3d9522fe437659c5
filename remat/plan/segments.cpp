#include "remat/plan/segments.h"

#include <algorithm>
#include <map>
#include <string>

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// At least this many readers over more than a quarter of forward make a value global.
constexpr size_t kGlobalReaders = 4;
constexpr int32_t kGlobalShare = 4;

std::vector<uint8_t> find_global(const Trace& trace) {
  std::vector<uint8_t> global(at(trace.values()));
  for (ValueId value = 0; value < trace.values(); ++value) {
    const auto readers = trace.readers(value);
    const bool everywhere = readers.size() >= kGlobalReaders &&
                            readers.back() - readers.front() > trace.ops() / kGlobalShare;
    global[at(value)] = everywhere || trace.producer(value) == kNone;
  }
  return global;
}

std::vector<Segment> cut_at_single_values(const Trace& trace, const std::vector<uint8_t>& global) {
  // How many values cross behind each operator, and the sum of their ids: the id when it is one.
  std::vector<int32_t> crossing(at(trace.ops()) + 1);
  std::vector<int64_t> ids(at(trace.ops()) + 1);
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (global[at(value)] != 0) continue;
    crossing[at(trace.producer(value))] += 1;
    crossing[at(trace.last_touch(value))] -= 1;
    ids[at(trace.producer(value))] += value;
    ids[at(trace.last_touch(value))] -= value;
  }
  std::vector<Segment> segments;
  Segment open;
  int32_t count = 0;
  int64_t sum = 0;
  for (OpId op = 0; op + 1 < trace.ops(); ++op) {
    count += crossing[at(op)];
    sum += ids[at(op)];
    if (count != 1 || sum == open.in) continue;
    open.end = op + 1;
    open.out = static_cast<ValueId>(sum);
    segments.push_back(open);
    open = {.first = open.end, .in = open.out};
  }
  if (open.first < trace.ops()) {
    open.end = trace.ops();
    segments.push_back(open);
  }
  return segments;
}

/// The names of the operators that depend on what crosses into the segment. The others are a
/// preamble: it would make the first layer differ from the rest.
std::string signature(const Trace& trace, const Segment& segment) {
  std::string names;
  if (segment.in == kNone) return names;
  std::vector<uint8_t> depends(at(segment.end - segment.first));
  for (OpId op = segment.first; op < segment.end; ++op) {
    const auto reads = trace.reads(op);
    const bool does = std::any_of(reads.begin(), reads.end(), [&](ValueId value) {
      const OpId producer = trace.producer(value);
      return value == segment.in ||
             (producer >= segment.first && depends[at(producer - segment.first)] != 0);
    });
    depends[at(op - segment.first)] = does;
    if (does) names += trace.name(op) + "\n";
  }
  return names;
}

struct Repetition {
  size_t first = 0;
  size_t period = 0;
  size_t times = 0;
};

/// The repetition that covers most operators; of about equal ones that with the shortest period.
Repetition find_repetition(const Trace& trace, const std::vector<Segment>& segments) {
  std::map<std::string, int32_t> known;
  std::vector<int32_t> kinds;
  for (const Segment& segment : segments) {
    const auto next = static_cast<int32_t>(known.size());
    kinds.push_back(known.emplace(signature(trace, segment), next).first->second);
  }
  Repetition best;
  double covered = 0;
  for (size_t period = 1; period <= kinds.size() / 2; ++period) {
    for (size_t first = 0; first + period < kinds.size();) {
      size_t run = 0;
      while (first + period + run < kinds.size() &&
             kinds[first + run] == kinds[first + period + run]) {
        ++run;
      }
      const size_t times = run / period + 1;
      if (times > 1) {
        const auto cover =
            static_cast<double>(segments[first + times * period - 1].end - segments[first].first);
        // A longer period has to gain something, or every multiple of the layer would do.
        if (cover > covered * 1.02) {
          covered = cover;
          best = {first, period, times};
        }
      }
      first += run + 1;
    }
  }
  return best;
}

Segment joined(const std::vector<Segment>& segments, size_t first, size_t end) {
  return {segments[first].first, segments[end - 1].end, segments[first].in, segments[end - 1].out};
}

}  // namespace

Segmentation segments_of(const Trace& trace) {
  Segmentation found;
  found.global = find_global(trace);
  found.fine = cut_at_single_values(trace, found.global);
  const auto [first, period, times] = find_repetition(trace, found.fine);
  if (times == 0) {
    found.layers = found.fine;
    return found;
  }
  if (first > 0) found.layers.push_back(joined(found.fine, 0, first));
  for (size_t layer = 0; layer < times; ++layer) {
    const size_t begin = first + layer * period;
    found.layers.push_back(joined(found.fine, begin, begin + period));
  }
  const size_t behind = first + times * period;
  if (behind < found.fine.size()) {
    found.layers.push_back(joined(found.fine, behind, found.fine.size()));
  }
  return found;
}

std::vector<ValueId> boundaries(const std::vector<Segment>& segments) {
  std::vector<ValueId> values;
  for (const Segment& segment : segments) {
    if (segment.out != kNone) values.push_back(segment.out);
  }
  return values;
}

std::vector<std::vector<ValueId>> boundary_sets(const Segmentation& segments) {
  const auto layers = boundaries(segments.layers);
  std::vector<std::vector<ValueId>> sets = {{}, boundaries(segments.fine), layers};
  for (size_t k = 2; k <= std::max<size_t>(2, layers.size() / 2); k += 1 + k / 8) {
    std::vector<ValueId> every;
    for (size_t i = k - 1; i < layers.size(); i += k) every.push_back(layers[i]);
    sets.push_back(std::move(every));
  }
  return sets;
}

}  // namespace remat::plan
