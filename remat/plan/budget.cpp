#include "remat/plan/budget.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>

namespace remat::plan {

namespace {

[[noreturn]] void reject(std::string_view text) {
  throw std::invalid_argument("\"" + std::string(text) +
                              "\" is no amount of memory; write 6GiB, 6G, 6000MB or 80%");
}

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},       {"b", 1},        {"k", 0x1p10},   {"kib", 0x1p10}, {"kb", 1e3},
    {"m", 0x1p20}, {"mib", 0x1p20}, {"mb", 1e6},     {"g", 0x1p30},   {"gib", 0x1p30},
    {"gb", 1e9},   {"t", 0x1p40},   {"tib", 0x1p40}, {"tb", 1e12},
};

struct Amount {
  double number = 0;
  std::string unit;
};

Amount split(std::string_view text) {
  Amount amount;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.number);
  if (error != std::errc() || !(amount.number > 0) || !std::isfinite(amount.number)) reject(text);
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    const auto letter = static_cast<unsigned char>(*c);
    if (letter != ' ') amount.unit += static_cast<char>(std::tolower(letter));
  }
  return amount;
}

int64_t whole_bytes(double bytes, std::string_view text) {
  if (bytes < 1 || bytes > 0x1p62) reject(text);
  return std::llround(bytes);
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  const Amount amount = split(text);
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                  [&](const Unit& known) { return known.name == amount.unit; });
  if (unit == std::end(kUnits)) reject(text);
  return whole_bytes(amount.number * unit->bytes, text);
}

int64_t parse_budget(std::string_view text, int64_t whole) {
  if (!text.ends_with('%')) return parse_bytes(text);
  const auto [number, unit] = split(text.substr(0, text.size() - 1));
  if (!unit.empty()) reject(text);
  // Down: a share must not come out above itself.
  return std::max<int64_t>(1, static_cast<int64_t>(number / 100 * static_cast<double>(whole)));
}

}  // namespace remat::plan
