// Tests what a search compares: small elements, integers made from floats, outputs that cannot be compared,
// and comparisons that the user declares.
#include "autotune/own_cache.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <string>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

tune::Space flat_space() { return tune::Space().pow2(BN, 64, 1024).seed({{"BN", 64}}); }
tune::Space row_space() {
  return tune::Space().pow2(BM, 1, 4).pow2(BN, 64, 1024).seed({{"BM", 1}, {"BN", 64}});
}
tune::TuneOptions short_search(int trials = 5) { return {.effort = tune::quick, .trials = trials}; }

int failures(const tune::Tuning& tuning) {
  int failed = 0;
  for (const tune::Trial& trial : tuning.search.trials) {
    UNSCOPED_INFO(trial.result.error);
    failed += !trial.result.ok();
  }
  return failed;
}

template <class F> std::string error_of(F f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("a small column that is wrong is not forgiven because of a large one") {
  const OwnCache cache;
  const auto statistics = kernel("wrong mean", [](View<const float, 2> x, View<float, 2> y) {
    auto [m] = program_tile(x, BM);
    auto [a, b] =
        for_range(BN, x.cols(), state(zeros<float>(BM), zeros<float>(BM)), [&](auto n, auto a, auto b) {
          Tile t = x.tile(m, n).load();
          return state(a + sum(t * t, BN), b + sum(t, BN));
        });
    auto rows = Scalar<std::int64_t>(m) + arange(BM);
    y.at(rows, 0).store(a * 1000.0f);
    y.at(rows, 1).store(b / cast<float>(x.cols()) * (value(BN) == 64 ? 1.0f : 3.0f));
  });
  Stream stream;
  auto x = Tensor<float, 2>::zeros({300, 1000}), y = Tensor<float, 2>::zeros({300, 2});
  x.fill(0.5f);
  const auto t = tuned(statistics, row_space());
  const tune::Tuning tuning = t.tune(stream, short_search(8), x, y);
  CHECK(failures(tuning) > 0);
  t.launch(stream, x, y);
  stream.synchronize();
  CHECK(y.data()[1] == 0.5f);
  const auto& outputs = tuning.search.best_result.outputs;
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].parameter == 1);
  CHECK(outputs[0].elements == 600);
  CHECK(outputs[0].compared == 600);
  CHECK(outputs[0].bound > 0);
  CHECK(tuning.warnings.empty());
}

TEST_CASE("integers that are made from floats may differ by rounding") {
  const OwnCache cache;
  const auto logarithms =
      kernel("integers from logarithms", [](View<const float, 1> x, View<std::int32_t, 1> y) {
        auto [i] = program_tile(y, BN);
        y.tile(i).store(cast<std::int32_t>(log(abs(x.tile(i).load()) + 1.0f) * 100000.0f));
      });
  Stream stream;
  auto x = Tensor<float, 1>::zeros({50000});
  auto y = Tensor<std::int32_t, 1>::zeros({50000});
  for (int i = 0; i < 50000; ++i)
    x.data()[i] = 1e-4f * static_cast<float>(i);
  const tune::Tuning tuning = tuned(logarithms, flat_space()).tune(stream, short_search(), x, y);
  CHECK(tuning.found());
  CHECK(failures(tuning) == 0);
}

TEST_CASE("if made-up inputs make every output NaN, others are tried") {
  const OwnCache cache;
  const auto logarithms = kernel("wrong sums of logarithms", [](View<const float, 2> x, View<float, 1> y) {
    auto [m] = program_tile(y, BM);
    auto t = for_range(BN, x.cols(), zeros<float>(BM),
                       [&](auto n, auto t) { return t + sum(log(x.tile(m, n).load_or(1.0f)), BN); });
    y.tile(m).store(t * (value(BN) >= 256 ? 3.0f : 1.0f));
  });
  Stream stream;
  auto x = Tensor<float, 2>::zeros({200, 2048});
  x.fill(2);
  auto y = Tensor<float, 1>::zeros({200});
  const auto t = tuned(logarithms, row_space());
  const tune::Tuning tuning = t.tune(stream, short_search(8), x, y);
  CHECK(failures(tuning) > 0);
  t.launch(stream, x, y);
  stream.synchronize();
  CHECK(y.data()[0] == Approx(2048 * std::log(2)));
}

TEST_CASE("an output of which nothing can be compared is an error, and one of which little can, a warning") {
  const OwnCache cache;
  const auto undefined = kernel("undefined", [](View<const float, 1> x, View<float, 1> y, View<float, 1> z) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * 0.0f / 0.0f);
    z.tile(i).store(x.tile(i).load());
  });
  Stream stream;
  auto x = Tensor<float, 1>::zeros({1000}), y = Tensor<float, 1>::zeros({1000}),
       z = Tensor<float, 1>::zeros({1000});
  CHECK_THAT(error_of([&] { tuned(undefined, flat_space()).tune(stream, short_search(), x, y, z); }),
             Catch::Contains(
                 "parameter 1 (f32): none of its 1000 elements can be compared, because all that the default "
                 "writes are NaN or infinite") &&
                 Catch::Contains("{.parameter = 1, .ignored = true}"));
  const tune::Tuning ignoring =
      tuned(undefined, flat_space(), {.outputs = {{.parameter = 1, .ignored = true}}})
          .tune(stream, short_search(), x, y, z);
  CHECK(ignoring.found());
  CHECK(failures(ignoring) == 0);
  CHECK_THAT(
      error_of([&] {
        tuned(undefined, flat_space(), {.outputs = {{.parameter = 0}}}).tune(stream, short_search(), x, y, z);
      }),
      Catch::Contains("names parameter 0 of kernel \"undefined\", which is no output"));
  const auto unwritten = kernel("unwritten", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(x, BN);
    y.tile(i).store(x.tile(i).load(), x.tile(i).load() > 100.0f);
  });
  CHECK_THAT(error_of([&] { tuned(unwritten, flat_space()).tune(stream, short_search(), x, y); }),
             Catch::Contains("the default writes none of them"));
  const auto few = kernel("few", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(x, BN);
    y.tile(i).store(x.tile(i).load(), (i + arange(BN)) % 10 == 0);
  });
  const tune::Tuning little = tuned(few, flat_space()).tune(stream, short_search(), x, y);
  CHECK(little.found());
  REQUIRE(little.warnings.size() == 1);
  CHECK_THAT(little.warnings[0], Catch::StartsWith("only 10 % of the elements of parameter 1 were compared"));
}

TEST_CASE("outputs that share a matrix are compared and counted one by one") {
  const OwnCache cache;
  const auto columns = [](bool undefined) {
    return kernel("columns", [undefined](View<const float, 1> x, View<float, 1> y, View<float, 1> z) {
      auto [i] = program_tile(y, BN);
      Tile t = x.tile(i).load();
      y.tile(i).store(t * 2.0f);
      z.tile(i).store((undefined ? Tile(log(-abs(t) - 1.0f)) : Tile(t + 1.0f)) *
                      (value(BN) == 64 ? 1.0f : 3.0f));
    });
  };
  Stream stream;
  auto matrix = Tensor<float, 2>::zeros({4000, 3});
  for (int i = 0; i < 12000; ++i)
    matrix.data()[i] = static_cast<float>(i % 1009) * 1e-3f;
  const auto x = matrix.view().select(1, 0), y = matrix.view().select(1, 1), z = matrix.view().select(1, 2);
  CHECK_THAT(error_of([&] { tuned(columns(true), flat_space()).tune(stream, short_search(), x, y, z); }),
             Catch::Contains("parameter 2 (f32): none of its 4000 elements can be compared"));
  const tune::Tuning tuning = tuned(columns(false), flat_space()).tune(stream, short_search(), x, y, z);
  CHECK(failures(tuning) == static_cast<int>(tuning.search.trials.size()) - 1);
  const auto& outputs = tuning.search.best_result.outputs;
  REQUIRE(outputs.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(outputs[i].parameter == static_cast<int>(i) + 1);
    CHECK(outputs[i].elements == 4000);
    CHECK(outputs[i].compared == 4000);
  }
}

TEST_CASE("the user may declare a tolerance, a comparison and what outputs are compared with", "[slow]") {
  const OwnCache cache;
  const auto twice = kernel("about twice", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * (value(BN) == 64 ? 2.0f : value(BN) == 128 ? 2.002f : 3.0f));
  });
  const auto exactly = kernel("exactly twice", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(x.tile(i).load() * 2.0f);
  });
  Stream stream;
  auto x = Tensor<float, 1>::zeros({1000}), y = Tensor<float, 1>::zeros({1000});
  x.fill(1);
  const auto failed = [&](tune::TunedOptions options) {
    return failures(tuned(twice, flat_space(), std::move(options)).tune(stream, short_search(), x, y));
  };
  CHECK(failed({}) == 4);
  CHECK(failed({.outputs = {{.parameter = 1, .relative = 2e-3}}}) == 3);
  CHECK(failed({.outputs = {{.parameter = 1, .share = 1}}}) == 0);
  int calls = 0;
  CHECK(failed({.outputs = {{.parameter = 1, .compare = [&](const tune::OutputValues& v) {
                               ++calls;
                               const auto* values = static_cast<const float*>(v.values);
                               const auto* reference = static_cast<const float*>(v.reference);
                               const double ratio = values[3] / reference[3];
                               return v.extents.at(0) < 900       ? "wrong extents"
                                      : std::abs(ratio - 1) < 0.1 ? ""
                                                                  : "the fourth element is wrong";
                             }}}}) == 3);
  CHECK(calls > 5);
  CHECK(failed({.reference = {exactly, {BN = 32}}}) == 4);
  CHECK(failed({.reference = [](const tune::HostArguments& a) {
          for (std::int64_t i = 0; i < a[1].extents[0]; ++i)
            a.data<float>(1)[i] = 2 * a.data<float>(0)[i];
        }}) == 4);
  CHECK_THAT(error_of([&] {
               failed({.reference = [](const tune::HostArguments& a) {
                 for (std::int64_t i = 0; i < a[1].extents[0]; ++i)
                   a.data<float>(1)[i] = 2.5f * a.data<float>(0)[i];
               }});
             }),
             Catch::Contains("it differs from the function of TunedOptions::reference: element 0 is "));
}

TEST_CASE("what is appended through a counter may be in any order") {
  const OwnCache cache;
  const auto append = [](bool wrong) {
    return kernel("append", [wrong](View<const float, 1> x, View<float, 1> y, View<std::int32_t, 1> counter) {
      auto [i] = program_tile(x, BN);
      Tile t = x.tile(i).load();
      Tile keep = (i + arange(BN) < x.size()) & (t > 0.5f);
      Tile ones = cast<std::int32_t>(keep);
      auto start = raw::atomic_add(counter.data(), sum(ones));
      Tile to = cast<std::int64_t>(cumsum(ones, BN) - ones + start);
      y.at(to).store(wrong && value(BN) > 64 ? Tile(t + 0.01f) : t, keep);
    });
  };
  Stream stream;
  auto x = Tensor<float, 1>::zeros({5000}), y = Tensor<float, 1>::zeros({5000});
  auto counter = Tensor<std::int32_t, 1>::zeros({1});
  for (int i = 0; i < 5000; ++i)
    x.data()[i] = static_cast<float>(i % 1009) * 1e-3f;
  const tune::Tuning right = tuned(append(false), flat_space()).tune(stream, short_search(), x, y, counter);
  CHECK(failures(right) == 0);
  REQUIRE(right.search.best_result.outputs.size() == 2);
  CHECK(right.search.best_result.outputs[0].unordered);
  CHECK_FALSE(right.search.best_result.outputs[1].unordered);
  CHECK(failures(tuned(append(true), flat_space()).tune(stream, short_search(), x, y, counter)) == 4);
}
