// Tests the errors about tolerances, references and keys that are found before anything is measured.
#include "autotune/own_cache.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <string>

using namespace kiln;
using Catch::Matchers::Contains;

namespace {

KILN_DIM(BN);

const auto doubled = kernel("doubled", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.tile(i).load() * 2.0f);
});

tune::Space space() { return tune::Space().oneof(BN, {16, 64}).seed({{"BN", 16}}); }

std::string error_of(tune::TunedOptions options, tune::TuneOptions search = {.trials = 2, .record = false}) {
  auto x = Tensor<float, 1>::zeros({100}), y = Tensor<float, 1>::zeros({100});
  Stream stream;
  try {
    tuned(doubled, space(), std::move(options)).tune(stream, search, x, y);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

std::string error_of(const tune::OutputCheck& check) { return error_of({.outputs = {check}}); }

} // namespace

TEST_CASE("a tolerance that is negative or no number is an error") {
  const OwnCache cache;
  const double bad[] = {-1e-3, NAN, INFINITY};
  for (const double value : bad) {
    CHECK_THAT(error_of({.parameter = 1, .relative = value}),
               Contains("gives parameter 1 a tolerance that is none"));
    CHECK_THAT(error_of({.parameter = 1, .absolute = value}),
               Contains("relative and absolute must be numbers from 0"));
    CHECK_THAT(error_of({.parameter = 1, .share = value}), Contains("share a number from 0 to 1"));
  }
  CHECK_THAT(error_of({.parameter = 1, .share = 2}), Contains("share a number from 0 to 1"));
}

TEST_CASE("a kernel that makes a pointer from a number cannot be tuned") {
  const OwnCache cache;
  const auto table = kernel("table of pointers", [](View<const std::int64_t, 1> addresses, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    auto p = raw::pointer<const float>(addresses.at(0).load());
    y.tile(i).store(raw::load(p + (i + arange(BN))));
  });
  auto addresses = Tensor<std::int64_t, 1>::zeros({1});
  auto y = Tensor<float, 1>::zeros({64});
  Stream stream;
  CHECK_THROWS_WITH(tuned(table, space()).tune(stream, {.record = false}, addresses, y),
                    Contains("the kernel makes a pointer from a number (") &&
                        Contains("test_check_task.cpp:"));
}

TEST_CASE("a reference kernel with other parameters is an error that names the difference") {
  const OwnCache cache;
  const auto three = kernel("three", [](View<const float, 1> x, View<float, 1> y, View<float, 1> z) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * 2.0f);
    z.tile(i).store(x.tile(i).load());
  });
  const auto of_doubles = kernel("of doubles", [](View<const double, 1> x, View<double, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * 2.0);
  });
  const auto of_rows = kernel("of rows", [](View<const float, 1> x, View<float, 2> y) {
    auto [i, j] = program_tile(y, BN, 1_c);
    y.tile(i, j).store(expand<1>(x.tile(i).load()));
  });
  CHECK_THAT(error_of({.reference = {three, {BN = 64}}}),
             Contains("TunedOptions::reference is kernel \"three\", which has 3 parameters instead of 2"));
  CHECK_THAT(
      error_of({.reference = {of_doubles, {BN = 64}}}),
      Contains(
          "kernel \"of doubles\", whose parameter 0 is view<const f64, 1> instead of view<const f32, 1>"));
  CHECK_THAT(error_of({.reference = {of_rows, {BN = 64}}}),
             Contains("whose parameter 1 is view<f32, 2> instead of view<f32, 1>"));
}

TEST_CASE("a key that is too long is an error wherever it is given") {
  const OwnCache cache;
  const std::string longest(1000, 'k'), too_long = longest + "k";
  const auto message = Contains("a key of 1001 bytes (\"kkkkkkkkkkkkkkkkkkkk...\") is too long");
  CHECK_THROWS_WITH(tuned(doubled, space()).with_key(too_long), message);
  CHECK_THROWS_WITH(tuned(doubled, space(), {.search = {.key = too_long}}), message);
  CHECK_THAT(error_of({}, {.trials = 2, .record = false, .key = too_long}), message);
  CHECK_NOTHROW(tuned(doubled, space()).with_key(longest));
}
