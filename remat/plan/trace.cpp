#include "remat/plan/trace.h"

#include <algorithm>
#include <stdexcept>

#include "remat/plan/hash.h"

namespace remat::plan {

namespace {

[[noreturn]] void reject(const std::string& where, const std::string& cause) {
  throw std::invalid_argument("trace: " + where + " " + cause);
}

std::string op_text(size_t op, const std::string& name) {
  return "operator " + std::to_string(op) + " (" + name + ")";
}

/// The rows turned around: for every id below `count`, the rows that list it, ascending.
Lists transposed(const Lists& rows, int32_t count) {
  std::vector<std::vector<int32_t>> columns(static_cast<size_t>(count));
  for (int32_t row = 0; row < rows.rows(); ++row) {
    for (const int32_t id : rows[row]) columns[static_cast<size_t>(id)].push_back(row);
  }
  Lists out;
  for (const auto& column : columns) out.add_row(column);
  return out;
}

/// Ascending and each once: a reader counts once however often it names a value.
std::vector<ValueId> as_set(std::vector<ValueId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Trace::Trace(TraceDocument document) : document_(std::move(document)) {
  for (size_t value = 0; value < document_.bytes.size(); ++value) {
    if (document_.bytes[value] < 0) {
      reject("value " + std::to_string(value), "has negative bytes");
    }
  }
  read_ops();
  read_steps();
  find_readers();
  mark_relevant();
}

void Trace::read_ops() {
  std::vector<uint8_t> read(document_.bytes.size(), 0);
  producer_.assign(document_.bytes.size(), kNone);
  for (size_t op = 0; op < document_.ops.size(); ++op) {
    const TraceDocument::Op& written = document_.ops[op];
    const auto where = [&] { return op_text(op, written.name); };
    if (!(written.us >= 0)) reject(where(), "has a negative time");
    for (const ValueId value : written.reads) {
      check(value, where);
      read[index(value)] = 1;
    }
    for (const ValueId value : written.makes) {
      check(value, where);
      const auto made = "makes value " + std::to_string(value);
      if (read[index(value)] != 0) reject(where(), made + ", which was read before");
      if (producer_[index(value)] != kNone) reject(where(), made + ", which was made before");
      producer_[index(value)] = static_cast<OpId>(op);
    }
    us_.push_back(written.us);
    reads_.add_row(as_set(written.reads));
    makes_.add_row(written.makes);
  }
}

template <typename Where>
void Trace::check(ValueId value, const Where& where) const {
  const auto count = document_.bytes.size();
  if (value >= 0 && index(value) < count) return;
  reject(where(), "names value " + std::to_string(value) + ", but there are " +
                      std::to_string(count) + " values");
}

void Trace::read_steps() {
  for (size_t step = 0; step < document_.steps.size(); ++step) {
    const TraceDocument::Step& written = document_.steps[step];
    const auto where = [&] { return "backward step " + std::to_string(step); };
    if (written.op < kNone || written.op >= ops()) {
      reject(where(), "is of operator " + std::to_string(written.op) + ", there is none");
    }
    if (written.extra_bytes < 0) reject(where(), "has negative extra bytes");
    if (written.before_bytes < 0) reject(where(), "has negative bytes before it");
    for (const ValueId value : written.reads) check(value, where);
    step_reads_.add_row(as_set(written.reads));
  }
}

void Trace::find_readers() {
  readers_ = transposed(reads_, values());
  wanted_by_ = transposed(step_reads_, values());
  const auto& held_until = document_.held_until;
  if (!held_until.empty() && held_until.size() != document_.bytes.size())
    reject("it", "does not say of every value until when it is held");
  for (ValueId value = 0; value < values(); ++value) {
    const OpId held = held_until.empty() ? kNone : held_until[index(value)];
    if (held >= ops())
      reject("value " + std::to_string(value),
             "is held until operator " + std::to_string(held) + ", there is none");
    last_forward_.push_back(std::max(last_touch(value), held));
  }
}

void Trace::mark_relevant() {
  relevant_.assign(index(ops()), 0);
  for (OpId op = ops() - 1; op >= 0; --op) {
    for (const ValueId value : makes(op)) {
      const auto wants = [&](OpId reader) { return relevant(reader); };
      if (saved(value) || std::any_of(readers(value).begin(), readers(value).end(), wants)) {
        relevant_[index(op)] = 1;
      }
    }
  }
}

uint64_t Trace::hash(OpId op) const {
  const auto& written = document_.ops[index(op)];
  if (written.hash != 0) return written.hash;
  Hash hash;
  hash.add(written.name);
  for (const ValueId value : written.reads) {
    const OpId from = producer(value);
    hash.add(static_cast<uint64_t>(from));
    if (from == kNone) continue;
    const auto made = makes(from);
    hash.add(static_cast<uint64_t>(std::find(made.begin(), made.end(), value) - made.begin()));
  }
  hash.add(static_cast<uint64_t>(written.makes.size()));
  hash.add(static_cast<uint64_t>(written.random));
  return hash.value();
}

}  // namespace remat::plan
