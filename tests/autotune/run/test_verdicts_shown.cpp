// Tests what a search says about outputs that it refuses or does not compare, and how it calls functions of
// the user.
#include "autotune/own_cache.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

using namespace kiln;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

KILN_DIM(BN);

tune::TuneOptions short_search() {
  return {.effort = tune::quick, .trials = 3, .seconds = 9, .record = false};
}
tune::Space two_configs() { return tune::Space().oneof(BN, {16, 64}).seed({{"BN", 16}}); }

// Doubles x; a config other than the seed triples it.
const auto doubled = kernel("doubled or tripled", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.tile(i).load() * (value(BN) == 16 ? 2.0f : 3.0f));
});
const auto always_doubled = kernel("doubled", [](View<const float, 1> x, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.tile(i).load() * 2.0f);
});

template <class K> tune::Tuning tune_it(const K& kernel, tune::TunedOptions options) {
  auto x = Tensor<float, 1>::zeros({1000}), y = Tensor<float, 1>::zeros({1000});
  for (std::int64_t i = 0; i < x.size(); ++i)
    x.data()[i] = 1.0f + static_cast<float>(i % 7);
  Stream stream;
  return tuned(kernel, two_configs(), std::move(options)).tune(stream, short_search(), x, y);
}
template <class K> std::string error_of(const K& kernel, tune::TunedOptions options) {
  try {
    (void)tune_it(kernel, std::move(options)).config();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

} // namespace

TEST_CASE("a search says how many configs were refused, why, and how to declare that they are right") {
  const OwnCache cache;
  const tune::Tuning tuning = tune_it(doubled, {});
  CHECK(tuning.config().to_string() == "BN=16");
  CHECK_THAT(tuning.refusals,
             Contains("1 of 2 configs was refused because of its outputs; the first is {BN=64}: "
                      "element 0 is 3, but the reference has 2") &&
                 Contains(", in parameter 1 (f32)") && Contains(".unordered (any order)") &&
                 Contains(".ignored (scratch memory)"));
}

TEST_CASE("a search whose outputs are all ignored warns that nothing is compared") {
  const OwnCache cache;
  const tune::Tuning tuning = tune_it(always_doubled, {.outputs = {{.parameter = 1, .ignored = true}}});
  REQUIRE(tuning.warnings.size() == 1);
  CHECK_THAT(tuning.warnings[0], Contains("nothing is compared"));
}

TEST_CASE("the text of a function that compares is part of the final error") {
  const OwnCache cache;
  using Values = const tune::OutputValues&;
  const auto with = [](std::function<std::string(Values)> compare) {
    return error_of(always_doubled, {.outputs = {{.parameter = 1, .compare = std::move(compare)}}});
  };
  CHECK_THAT(with([](Values) -> std::string { return "no cluster is stable"; }),
             Contains("the default {BN=16}") && Contains("the function that compares parameter 1") &&
                 Contains("no cluster is stable"));
  CHECK_THAT(with([](Values) -> std::string { throw std::runtime_error("cannot read the clusters"); }),
             Contains("threw an exception: cannot read the clusters"));
}

TEST_CASE("a function that compares does not get NaN of inputs that the tuner made") {
  const OwnCache cache;
  const auto exactly = [](const tune::OutputValues& v) -> std::string {
    const auto *a = static_cast<const float*>(v.values), *b = static_cast<const float*>(v.reference);
    for (std::int64_t i = 0; i < v.extents[0]; ++i)
      if (a[i] != b[i]) return "element " + std::to_string(i) + " differs";
    return "";
  };
  const tune::Tuning tuning = tune_it(doubled, {.outputs = {{.parameter = 1, .compare = exactly}}});
  CHECK(tuning.config().to_string() == "BN=16");
  CHECK_THAT(tuning.refusals, Contains("element 0 differs"));
}

TEST_CASE("errors of a reference name it, and the exception of its function") {
  const OwnCache cache;
  using Arguments = const tune::HostArguments&;
  CHECK_THAT(error_of(always_doubled, {.reference = [](Arguments) {}}),
             Contains("the function of TunedOptions::reference writes none of them"));
  CHECK_THAT(
      error_of(always_doubled, {.reference = [](Arguments a) { a.data<float>(7)[0] = 1; }}),
      Contains(
          "the function of TunedOptions::reference threw an exception: HostArguments has no parameter 7; "
          "there are 2, counted from 0"));
  CHECK_THAT(
      error_of(always_doubled, {.reference = [](Arguments) { throw 5; }}),
      Contains("the function of TunedOptions::reference threw an exception that is not a std::exception"));
}

TEST_CASE("a reference kernel that does not end is named") {
  const OwnCache cache;
  const auto endless = kernel("endless", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(
        while_loop(x.tile(i).load(), [](auto t) { return any(t == t); }, [](auto t) { return t + 1.0f; }));
  });
  auto x = Tensor<float, 1>::zeros({100}), y = Tensor<float, 1>::zeros({100});
  Stream stream;
  tune::TuneOptions options = short_search();
  options.seconds = 1;
  const tune::Tuning tuning =
      tuned(always_doubled, two_configs(), {.reference = {endless, {BN = 32}}}).tune(stream, options, x, y);
  CHECK_THROWS_WITH(
      tuning.config(),
      Contains("the time was spent in kernel \"endless\" with {BN=32} of TunedOptions::reference"));
}

TEST_CASE("a config that reads an output that the default only writes is refused with this reason") {
  const OwnCache cache;
  const auto sums = kernel("sums by stores or atomics", [](View<const float, 2> x, View<float, 1> y) {
    auto [m] = program_tile(y, BN);
    auto total = for_range(8_c, x.cols(), zeros<float>(BN),
                           [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), 8_c); });
    if (value(BN) == 16)
      y.tile(m).store(total);
    else
      y.tile(m).atomic_add(total);
  });
  auto x = Tensor<float, 2>::zeros({100, 50});
  auto y = Tensor<float, 1>::zeros({100});
  x.fill(0.5f);
  Stream stream;
  const tune::Tuning tuning = tuned(sums, two_configs()).tune(stream, short_search(), x, y);
  CHECK_THAT(tuning.refusals, Contains("in parameter 1 (f32), which this config reads"));
}

TEST_CASE("a config that does not reset scratch for the next launch is refused if the default does") {
  const OwnCache cache;
  const auto last_one =
      kernel("last program", [](View<const float, 1> x, View<std::int32_t, 1> counter, View<float, 1> y) {
        auto [i] = program_tile(x, BN);
        Tile t = x.tile(i).load();
        auto old = counter.at(0).atomic_add(1);
        if_then(old == cast<std::int32_t>(num_programs(0)) - 1, [&] {
          y.at(0).store(sum(t * 0.0f) + 1.0f);
          if (value(BN) == 16) counter.at(0).store(0);
        });
      });
  const auto never_reset =
      kernel("last program, reset by the caller", [](View<const float, 1> x, View<std::int32_t, 1> counter,
                                                     View<float, 1> y) {
        auto [i] = program_tile(x, BN);
        Tile t = x.tile(i).load();
        auto old = counter.at(0).atomic_add(1);
        if_then(old == cast<std::int32_t>(num_programs(0)) - 1, [&] { y.at(0).store(sum(t * 0.0f) + 1.0f); });
      });
  auto x = Tensor<float, 1>::zeros({1000}), y = Tensor<float, 1>::zeros({1});
  auto counter = Tensor<std::int32_t, 1>::zeros({1});
  x.fill(1.0f);
  Stream stream;
  const tune::TunedOptions options{.outputs = {{.parameter = 1, .ignored = true}}};
  const tune::Tuning reset =
      tuned(last_one, two_configs(), options).tune(stream, short_search(), x, counter, y);
  CHECK(reset.config().to_string() == "BN=16");
  CHECK_THAT(reset.refusals,
             Contains("in a second launch, for which ignored outputs hold what the one before has left"));
  CHECK(tuned(never_reset, two_configs(), options)
            .tune(stream, short_search(), x, counter, y)
            .refusals.empty());
}
