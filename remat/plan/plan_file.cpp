#include "remat/plan/plan_file.h"

#include <fstream>
#include <ostream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace remat::plan {

namespace {

using nlohmann::json;

constexpr const char* kFormat = "remat-plan-1";

json json_of(const Instant& instant) {
  static constexpr const char* kKinds[] = {"forward", "replay", "backward"};
  return {{"kind", kKinds[static_cast<size_t>(instant.kind)]},
          {"op", instant.op},
          {"step", instant.step}};
}

Instant instant_of(const json& object) {
  const auto kind = object.at("kind").get<std::string>();
  return {kind == "forward"  ? Instant::Kind::forward
          : kind == "replay" ? Instant::Kind::replay
                             : Instant::Kind::backward,
          object.at("op").get<OpId>(), object.at("step").get<StepId>()};
}

Plan plan_of(const json& root) {
  if (!root.is_object() || root.value("format", json()) != kFormat) {
    throw std::runtime_error(std::string("plan: no plan of the format \"") + kFormat + "\"");
  }
  Plan plan;
  plan.budget_bytes = root.at("budget_bytes").get<int64_t>();
  plan.cost = {root.at("peak_bytes").get<int64_t>(), root.at("recompute_us").get<double>()};
  plan.peak_at = instant_of(root.at("peak_at"));
  plan.base_us = root.at("base_us").get<double>();
  plan.kept = root.at("keep").get<std::vector<ValueId>>();
  plan.is_keep_set = root.at("is_keep_set").get<bool>();
  plan.fingerprint = root.at("fingerprint").get<uint64_t>();
  plan.bytes = root.at("bytes").get<std::vector<int64_t>>();
  for (const json& row : root.at("replay")) plan.replay.add_row(row.get<std::vector<OpId>>());
  return plan;
}

}  // namespace

void write_plan(const Plan& plan, std::ostream& out) {
  json root{{"format", kFormat},
            {"budget_bytes", plan.budget_bytes},
            {"peak_bytes", plan.cost.peak},
            {"recompute_us", plan.cost.us},
            {"peak_at", json_of(plan.peak_at)},
            {"base_us", plan.base_us},
            {"keep", plan.kept},
            {"is_keep_set", plan.is_keep_set},
            {"fingerprint", plan.fingerprint},
            {"bytes", plan.bytes}};
  auto& rows = root["replay"] = json::array();
  for (StepId step = 0; step < plan.replay.rows(); ++step) rows.push_back(plan.replay[step]);
  out << root.dump() << "\n";
}

Plan read_plan(std::istream& in) {
  try {
    return plan_of(json::parse(in));
  } catch (const json::exception& error) {
    throw std::runtime_error(std::string("plan: ") + error.what());
  }
}

Plan read_plan(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read");
  try {
    return read_plan(in);
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() + ": " + error.what());
  }
}

}  // namespace remat::plan
