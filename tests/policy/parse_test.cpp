#include "remat/policy/parse.h"

#include <gtest/gtest.h>

#include "remat/policy/rules.h"
#include "tests/policy/ask.h"

namespace remat::policy {
namespace {

TEST(ParseTest, ReadsWhatPoliciesAreNamed) {
  for (const char* text :
       {"nothing_saveable", "everything_saveable", "dots_saveable",
        "dots_with_no_batch_dims_saveable", "keep_ops(mm, aten::add.Tensor)", "names(attn_*)",
        "modules(layers.?.mlp)", "at_least(65536)", "at_most(0)", "every(3)",
        "keep_ops(a) - keep_ops(b) & keep_ops(c) | keep_ops(d)",
        "keep_ops(a) - (keep_ops(b) | keep_ops(c) & keep_ops(d))", "names(\"a \\\"b\\\", c\")"})
    EXPECT_EQ(parse(text).name(), text);
}

TEST(ParseTest, OperatorsBindAsInCpp) {
  const auto policy = parse("keep_ops(a) | keep_ops(b, c) & keep_ops(c, d) - keep_ops(d)");
  EXPECT_TRUE(keeps(policy, "x::a"));
  EXPECT_TRUE(keeps(policy, "x::c"));
  EXPECT_FALSE(keeps(policy, "x::b"));
  EXPECT_FALSE(keeps(policy, "x::d"));
}

TEST(ParseTest, BracketsGroup) {
  EXPECT_EQ(parse(" ( dots_saveable|names( x ) )&every(2)").name(),
            "(dots_saveable | names(x)) & every(2)");
}

TEST(ParseTest, SizesHaveUnits) {
  EXPECT_EQ(parse("at_least(64KiB)").name(), "at_least(65536)");
  EXPECT_EQ(parse("at_most(1MB)").name(), "at_most(1000000)");
}

TEST(ParseTest, QuotesHoldWhatABareNameMayNot) {
  EXPECT_TRUE(keeps_named(parse("names('a-b, c')"), {"a-b, c"}));
}

TEST(ParseTest, JaxNamesMeanWhatTheyAreMadeOf) {
  EXPECT_EQ(parse("checkpoint_dots").name(), "dots_saveable");
  EXPECT_EQ(parse("save_any_names_but_these(a, b)").name(), "names(*) - names(a, b)");
  EXPECT_EQ(parse("save_from_both_policies(dots_saveable, names(a))").name(),
            "dots_saveable | names(a)");
}

TEST(ParseTest, AnUnknownNameIsAnErrorWithItsColumnAndTheNamesThereAre) {
  const auto error = error_of([] { parse("every(2) | dots"); });
  EXPECT_EQ(error.find("remat: in the policy \"every(2) | dots\" at column 12: there is no policy "
                       "named \"dots\". The policies are nothing_saveable, everything_saveable, "),
            0)
      << error;
  EXPECT_NE(error.find("keep_ops(...)"), std::string::npos) << error;
}

struct Wrong {
  const char* text;
  const char* error;
};

class WrongTextTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongTextTest, IsAnErrorThatSaysWhereAndWhy) {
  const auto error = error_of([] { parse(GetParam().text); });
  EXPECT_NE(error.find(GetParam().error), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(
    ParseTest, WrongTextTest,
    ::testing::Values(Wrong{"", "at column 1: expected the name of a policy"},
                      Wrong{"dots_saveable |", "at column 16: expected the name of a policy"},
                      Wrong{"dots_saveable every(2)", "at column 15: expected |, & or -"},
                      Wrong{"(dots_saveable", "at column 15: expected )"},
                      Wrong{"keep_ops", "at column 9: expected ("},
                      Wrong{"keep_ops()", "at column 1: keep_ops needs at least one operator name"},
                      Wrong{"names(a-b)", "at column 8: expected , or ); names with other"},
                      Wrong{"names(\"a)", "at column 7: the quote is not closed"},
                      Wrong{"at_least(much)", "\"much\" is no amount of memory"},
                      Wrong{"at_least(1, 2)", "at column 1: it takes one size"},
                      Wrong{"every(x)", "\"x\" is no number"},
                      Wrong{"every(0)", "every takes a number of 1 or more"},
                      Wrong{"save_from_both_policies(every(2))", "at column 33: expected ,"},
                      Wrong{"offload_dot_with_no_batch_dims(device, pinned_host)",
                            "remat has no host memory tier yet"}));

TEST(ParseTest, EveryKnownNameIsRead) {
  for (std::string name : known()) {
    const auto error = error_of([&] { parse(name.substr(0, name.find('('))); });
    EXPECT_EQ(error.find("there is no policy"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace remat::policy
