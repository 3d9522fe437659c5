#pragma once

#include <filesystem>
#include <iosfwd>

#include "remat/plan/plan.h"

/// Plans as JSON, format "remat-plan-1" (docs/planner.md).
namespace remat::plan {

void write_plan(const Plan& plan, std::ostream& out);

/// Throws std::runtime_error, naming the field, when the text is no such plan.
Plan read_plan(std::istream& in);

/// The same; errors name the file too.
Plan read_plan(const std::filesystem::path& file);

}  // namespace remat::plan
