// Tests the error messages about spaces.
#include <kiln/autotune/space/space.h>

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::tune;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

std::string error_of(auto&& work) {
  try {
    work();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

std::string error_with(auto rule) {
  return error_of([&] {
    Space s;
    s.range("a", 1, 3).range("b", 1, 3).require("r", rule);
    BoundSpace(s, {{{"M", 2}}, ""}, Device::cpu()).size();
  });
}

} // namespace

TEST_CASE("errors in knobs are reported with a remedy") {
  CHECK_THAT(
      error_of([] { Space().pow2("BM", 0, -4); }),
      Equals("tuning space: knob \"BM\" has no power of two from 0 to -4; give the smallest value first, "
             "both at least 1"));
  CHECK_THAT(error_of([] { Space().range("s", 3, 1); }),
             Equals("tuning space: knob \"s\" ranges from 3 to 1, which is empty; give the smallest value "
                    "first"));
  CHECK_THAT(error_of([] { Space().range("s", 3, 9, 0); }),
             Equals("tuning space: knob \"s\" has the step 0; give it at least 1"));
  CHECK_THAT(
      error_of([] { Space().range("s", INT64_MIN, INT64_MAX); }),
      Equals("tuning space: knob \"s\" has more than 65535 values; use a larger step or powers of two"));
  CHECK_THAT(error_of([] { Space().range("s", 1, 2).oneof("s", {1, 3}); }),
             Equals("tuning space: knob \"s\" is declared twice; remove one of them"));
  CHECK_THAT(error_of([] { Space().oneof("s", {1, 2, 1}); }),
             Equals("tuning space: knob \"s\" has the value 1 twice; remove one of them"));
  CHECK_THAT(error_of([] { Space().oneof("s", {"x", "x", "y"}); }),
             Equals("tuning space: knob \"s\" has the value \"x\" twice; remove one of them"));
  CHECK_THAT(error_of([] { Space().oneof("s", std::initializer_list<std::int64_t>{}); }),
             Equals("tuning space: knob \"s\" has no values; give it at least one"));
  CHECK_THAT(error_of([] {
               Space s;
               for (int k = 0; k < 65; ++k)
                 s.range("k" + std::to_string(k), 1, 2);
             }),
             Equals("tuning space: knob \"k64\" is one too many; a space holds at most 64"));
}

TEST_CASE("errors in seeds and lists are reported with a remedy") {
  CHECK_THAT(error_of([] { Space().range("s", 1, 2).seed({{"s", 3}}); }),
             Equals("tuning space: the seed's s = 3 is not a value of that knob; it takes 1, 2"));
  CHECK_THAT(
      error_of([] { Space().range("s", 1, 2).seed({{"t", 3}}); }),
      Equals("tuning space: the seed names \"t\", which is not a knob of the space (s); declare all knobs "
             "before the seeds"));
  CHECK_THAT(error_of([] { Space().range("s", 1, 2).seed(Config::parse("s=5")); }),
             Equals("tuning space: the seed's s = 5 is not a value of that knob; it takes 1, 2"));
  CHECK_THAT(
      error_of([] { Space().range("s", 1, 2).only({{0}, {2}}); }),
      Equals("tuning space: point 1 of only() does not fit the knobs (s); declare all knobs before it, and "
             "give each point one index of a value for each knob"));
  CHECK_THAT(
      error_of([] { Space().range("s", 1, 2).only({{0}}).range("t", 1, 2); }),
      Equals("tuning space: knob \"t\" is declared after only(), whose points lack it; declare it before"));
}

TEST_CASE("errors in rules are reported with the rule's name") {
  CHECK_THAT(error_with([](const Choice& c) { return c["c"] > 1; }),
             Equals("tuning space: rule \"r\" threw: the space has no knob \"c\"; its knobs are a, b; a rule "
                    "must accept any values of the knobs"));
  CHECK_THAT(error_with([](const Choice&, const Problem& p) { return p["N"] > 1; }),
             Equals("tuning space: rule \"r\" threw: the problem has no size \"N\"; its sizes are M; a rule "
                    "must accept any values of the knobs"));
  CHECK_THAT(error_with([](const Choice& c) { return c["a"] < 0 || c.label("a") == "x"; }),
             Contains("knob \"a\" has numbers and no labels; read it as c[\"a\"]"));
  CHECK_THAT(
      error_with([](const Choice& c) { return c["b"] != 2 ? true : throw 7; }),
      Equals("tuning space: rule \"r\" threw for b = 2: an object that is not a std::exception; a rule "
             "must accept any values of the knobs"));
  CHECK_THAT(error_of([] {
               auto yes = [](const Choice&) { return true; };
               Space().require("r", yes).require("r", yes);
             }),
             Equals("tuning space: there are two rules named \"r\"; rename one of them"));
}
