#include "remat/plan/plan.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "remat/plan/hash.h"

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// What of forward is read in backward before it is made again.
std::vector<ValueId> kept_by(const Trace& trace, const Replay& replay) {
  std::vector<uint8_t> remade(at(trace.values()));
  std::vector<uint8_t> kept(at(trace.values()));
  const auto read = [&](std::span<const ValueId> values) {
    for (const ValueId value : values) kept[at(value)] |= remade[at(value)] == 0;
  };
  for (StepId step = 0; step < trace.steps(); ++step) {
    for (const OpId op : replay[step]) {
      read(trace.reads(op));
      for (const ValueId value : trace.makes(op)) remade[at(value)] = 1;
    }
    read(trace.step_reads(step));
  }
  std::vector<ValueId> values;
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (kept[at(value)] != 0) values.push_back(value);
  }
  return values;
}

KeepSet flags(const std::vector<ValueId>& values, const Trace& trace) {
  KeepSet keep(at(trace.values()));
  for (const ValueId value : values) keep[at(value)] = 1;
  return keep;
}

std::string megabytes(int64_t bytes) {
  std::ostringstream text;
  text.precision(1);
  text << std::fixed << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

struct Total {
  int64_t count = 0;
  int64_t bytes = 0;
  double us = 0;
};
using Totals = std::map<std::string, Total>;

Totals kept_by_name(const Plan& plan, const Trace& trace) {
  Totals totals;
  for (const ValueId value : plan.kept) {
    const OpId producer = trace.producer(value);
    Total& total = totals[producer == kNone ? "(at hand)" : trace.name(producer)];
    ++total.count;
    total.bytes += trace.bytes(value);
  }
  return totals;
}

Totals replayed_by_name(const Plan& plan, const Trace& trace) {
  Totals totals;
  for (StepId step = 0; step < plan.replay.rows(); ++step) {
    for (const OpId op : plan.replay[step]) {
      Total& total = totals[trace.name(op)];
      ++total.count;
      total.us += trace.us(op);
    }
  }
  return totals;
}

/// "kept  mm  30 -> 24": the names whose counts differ.
void write_changes(std::ostream& out, const char* what, const Totals& before, const Totals& after) {
  Totals names = before;
  names.insert(after.begin(), after.end());
  const auto count = [](const Totals& totals, const std::string& name) {
    const auto found = totals.find(name);
    return found == totals.end() ? 0 : found->second.count;
  };
  for (const auto& [name, total] : names) {
    const auto old_count = count(before, name);
    const auto new_count = count(after, name);
    if (old_count == new_count) continue;
    out << what << "  " << name << "  " << old_count << " -> " << new_count << "\n";
  }
}

}  // namespace

bool Plan::operator==(const Plan& other) const {
  return budget_bytes == other.budget_bytes && cost.peak == other.cost.peak &&
         cost.us == other.cost.us && peak_at == other.peak_at && base_us == other.base_us &&
         replay == other.replay && kept == other.kept && is_keep_set == other.is_keep_set &&
         fingerprint == other.fingerprint && bytes == other.bytes;
}

Plan make_plan(const Trace& trace, int64_t budget_bytes, Replay replay) {
  Simulator simulator(trace);
  Plan plan;
  plan.budget_bytes = budget_bytes;
  plan.cost = simulator.run(replay);
  plan.peak_at = simulator.peak_instant();
  plan.base_us = trace.base_us();
  plan.replay = std::move(replay);
  plan.kept = kept_by(trace, plan.replay);
  plan.is_keep_set = replay_of(trace, flags(plan.kept, trace)) == plan.replay;
  plan.fingerprint = fingerprint_of(trace);
  plan.bytes = trace.document().bytes;
  return plan;
}

Match match(const Plan& plan, const Trace& trace) {
  if (plan.fingerprint != fingerprint_of(trace)) return Match::other_step;
  return plan.bytes == trace.document().bytes ? Match::same : Match::other_sizes;
}

Plan resimulated(const Plan& plan, const Trace& trace) {
  if (match(plan, trace) == Match::other_step) {
    throw std::invalid_argument(
        "plan: it was made for another step; operators, their wiring or the order of backward "
        "differ, so plan again");
  }
  return make_plan(trace, plan.budget_bytes, plan.replay);
}

uint64_t fingerprint_of(const Trace& trace) {
  Hash hash;
  for (OpId op = 0; op < trace.ops(); ++op) hash.add(trace.hash(op));
  for (StepId step = 0; step < trace.steps(); ++step) {
    hash.add(static_cast<uint64_t>(trace.step_op(step)));
    for (const ValueId value : trace.step_reads(step)) hash.add(static_cast<uint64_t>(value));
  }
  return hash.value();
}

KeepSet keep_set_of(const Plan& plan, const Trace& trace) { return flags(plan.kept, trace); }

Lists held_after(const Trace& trace, const Replay& replay) {
  // From the end: a value is wanted where something behind reads it before it is made again.
  std::vector<uint8_t> wanted(at(trace.values()));
  std::vector<std::vector<ValueId>> rows(at(trace.steps()));
  for (StepId step = trace.steps() - 1; step >= 0; --step) {
    const auto row = replay[step];
    for (const OpId op : row) {
      for (const ValueId value : trace.makes(op)) {
        if (wanted[at(value)] != 0) rows[at(step)].push_back(value);
      }
    }
    for (const ValueId value : trace.step_reads(step)) wanted[at(value)] = 1;
    for (size_t i = row.size(); i-- > 0;) {
      const OpId op = row[i];
      for (const ValueId value : trace.makes(op)) wanted[at(value)] = 0;
      for (const ValueId value : trace.reads(op)) wanted[at(value)] = 1;
    }
  }
  Lists lists;
  for (const auto& row : rows) lists.add_row(row);
  return lists;
}

std::string to_text(const Plan& plan, const Trace& trace) {
  std::ostringstream out;
  out.precision(3);
  out << std::fixed;
  out << "budget     " << megabytes(plan.budget_bytes) << "\n"
      << "peak       " << megabytes(plan.cost.peak) << ", at the " << to_text(plan.peak_at, trace)
      << "\n"
      << "recompute  " << plan.cost.us / 1000 << " ms, " << plan.recompute_percent()
      << " % of the step\n";
  for (const auto& [name, total] : kept_by_name(plan, trace)) {
    out << "keep       " << name << "  " << total.count << "  " << megabytes(total.bytes) << "\n";
  }
  for (const auto& [name, total] : replayed_by_name(plan, trace)) {
    out << "run again  " << name << "  " << total.count << "  " << total.us / 1000 << " ms\n";
  }
  return out.str();
}

std::string diff(const Plan& before, const Plan& after, const Trace& trace) {
  std::ostringstream out;
  write_changes(out, "keep", kept_by_name(before, trace), kept_by_name(after, trace));
  write_changes(out, "run again", replayed_by_name(before, trace), replayed_by_name(after, trace));
  return out.str();
}

}  // namespace remat::plan
