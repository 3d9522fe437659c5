#pragma once

#include <filesystem>
#include <iosfwd>

#include "remat/plan/trace.h"

/// Traces as JSON, format "remat-trace-1" (docs/planner.md).
namespace remat::plan {

/// Throws std::runtime_error, naming the field, when the text is no such trace, and
/// std::invalid_argument (see Trace) when it contradicts itself.
Trace read_trace(std::istream& in);

/// The same; errors name the file too.
Trace read_trace(const std::filesystem::path& file);

void write_trace(const Trace& trace, std::ostream& out);

}  // namespace remat::plan
