#include "remat/policy/rules.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string_view>

#include "remat/policy/pattern.h"
#include "remat/policy/word.h"

namespace remat::policy {

namespace {

/// Products of two matrices or vectors.
constexpr std::string_view kProducts[] = {
    "mm",     "addmm",  "_addmm_activation", "_int_mm", "_scaled_mm", "mv", "addmv", "dot", "vdot",
    "linear", "addbmm", "mkldnn_linear"};

/// Products of two stacks of matrices, which are the result's first extent.
constexpr std::string_view kBatchedProducts[] = {"bmm", "baddbmm"};

constexpr std::string_view kConvolutions[] = {
    "convolution",           "convolution_overrideable",
    "_convolution",          "mkldnn_convolution",
    "cudnn_convolution",     "cudnn_convolution_transpose",
    "miopen_convolution",    "miopen_convolution_transpose",
    "_slow_conv2d_forward",  "thnn_conv2d",
    "slow_conv3d_forward",   "slow_conv_dilated2d",
    "slow_conv_dilated3d",   "slow_conv_transpose2d",
    "slow_conv_transpose3d", "_conv_depthwise2d",
    "conv_depthwise3d",      "conv_tbc"};

/// "mm" of "aten::mm.out" and "mm_"; other namespaces' operators are nobody's products.
std::string_view aten_base(std::string_view op) {
  constexpr std::string_view aten = "aten::";
  if (!op.starts_with(aten)) return {};
  op = op.substr(aten.size(), op.find('.') - aten.size());
  if (op.ends_with('_')) op.remove_suffix(1);
  return op;
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_product(const Facts& facts) {
  const auto name = aten_base(facts.op);
  return is_one_of(kProducts, name) || is_one_of(kBatchedProducts, name);
}

bool has_batch(const Facts& facts) {
  if (!is_one_of(kBatchedProducts, aten_base(facts.op))) return false;
  return facts.geometry == nullptr || facts.geometry->dimensions() == 0 ||
         facts.geometry->sizes()[0] != 1;
}

Decision keep_if(bool keeps) { return keeps ? Decision::keep : Decision::recompute; }

/// "keep_ops(mm, bmm)". Throws where there is no pattern or an empty one.
std::string label(const std::string& rule, const std::vector<std::string>& patterns,
                  const std::string& noun) {
  if (patterns.empty())
    throw std::invalid_argument("remat: " + rule + " needs at least one " + noun);
  std::string text = rule + "(";
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) throw std::invalid_argument("remat: " + rule + " was given an empty name");
    text += (text.back() == '(' ? "" : ", ") + quoted_if_needed(pattern);
  }
  return text + ")";
}

template <typename Matches>
bool any(const std::vector<std::string>& patterns, const Matches& matches) {
  return std::any_of(patterns.begin(), patterns.end(), matches);
}

void check_bytes(const char* rule, int64_t bytes) {
  if (bytes < 0)
    throw std::invalid_argument(std::string("remat: ") + rule + " takes a number of bytes, not " +
                                std::to_string(bytes));
}

}  // namespace

const Policy& dots_saveable() {
  static const Policy policy(
      "dots_saveable",
      [](const Facts& facts) {
        return keep_if(is_product(facts) || is_one_of(kConvolutions, aten_base(facts.op)));
      },
      {});
  return policy;
}

const Policy& dots_with_no_batch_dims_saveable() {
  static const Policy policy(
      "dots_with_no_batch_dims_saveable",
      [](const Facts& facts) { return keep_if(is_product(facts) && !has_batch(facts)); }, {});
  return policy;
}

Policy keep_ops(std::vector<std::string> patterns) {
  auto name = label("keep_ops", patterns, "operator name, for example \"mm\"");
  auto rule = [patterns = std::move(patterns)](const Facts& facts) {
    return keep_if(any(
        patterns, [&](const std::string& pattern) { return matches_operator(pattern, facts.op); }));
  };
  return {std::move(name), std::move(rule), {}};
}

Policy names(std::vector<std::string> patterns) {
  auto name = label("names", patterns, "name that remat::name() gives, or \"*\" for any");
  auto rule = [patterns = std::move(patterns)](const Facts& facts) {
    return keep_if(any(patterns, [&](const std::string& pattern) {
      return std::any_of(facts.names.begin(), facts.names.end(),
                         [&](const std::string& given) { return matches(pattern, given); });
    }));
  };
  return {std::move(name), std::move(rule), {.names = true}};
}

Policy modules(std::vector<std::string> patterns) {
  auto name = label("modules", patterns, "module path, for example \"*.mlp\"");
  auto rule = [name, patterns = std::move(patterns)](const Facts& facts) {
    if (!facts.module) {
      throw std::invalid_argument(
          "remat: the policy " + name +
          " asks which module runs, and the region was not told: give it the module "
          "(remat.region(module=model, ...), or checkpoint a module instead of a function; in C++ "
          "Region::set_module)");
    }
    return keep_if(any(patterns, [&](const std::string& pattern) {
      return matches_module(pattern, *facts.module);
    }));
  };
  return {std::move(name), std::move(rule), {.module = true}};
}

Policy at_least(int64_t bytes) {
  check_bytes("at_least", bytes);
  return {"at_least(" + std::to_string(bytes) + ")",
          [bytes](const Facts& facts) { return keep_if(facts.bytes >= bytes); },
          {}};
}

Policy at_most(int64_t bytes) {
  check_bytes("at_most", bytes);
  return {"at_most(" + std::to_string(bytes) + ")",
          [bytes](const Facts& facts) { return keep_if(facts.bytes <= bytes); },
          {}};
}

Policy every(int64_t k) {
  if (k < 1)
    throw std::invalid_argument("remat: every takes a number of 1 or more, not " +
                                std::to_string(k));
  return {"every(" + std::to_string(k) + ")",
          [k](const Facts& facts) { return keep_if(facts.call != 0 && facts.call % k == 0); },
          {.call = true}};
}

}  // namespace remat::policy
