// Tests that winners are rejected if they are wrong for other values than the given ones: other signs and
// magnitudes, empty rows of masks, shorter lengths, short last tiles.
#include "checked.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;
using tune::Twist;

namespace {

using std::int32_t, std::int64_t, std::int8_t, std::uint32_t, std::uint8_t;
constexpr int64_t n = 20'000;

// Checks a kernel of which `make` returns a right and a wrong version.
template <class F> void check(Twist twist, const std::vector<Argument>& arguments, F make) {
  Compared compared(arguments, bn(16), bn(64));
  CHECK(compared.error(make(false), make(true)) == ""); // in the trials
  CHECK(compared.verified(twist, make(false), make(false)) == "");
  const std::string error = compared.verified(twist, make(false), make(true));
  CHECK_THAT(error, Catch::StartsWith("element "));
}

// y = f(x) for each element.
template <class X, class Y, class F> auto mapped(F f) {
  return kernel("mapped", [f](View<const X, 1> x, View<Y, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(f(x.tile(i).load()));
  });
}

} // namespace

TEST_CASE("winners that extend the sign of unsigned integers are rejected") {
  check(Twist::tiny, {given<uint8_t>({n}, [](std::size_t i) { return i % 100; }), out<float>({n})},
        [](bool wrong) {
          return mapped<uint8_t, float>(
              [=](auto t) { return wrong ? Tile(cast<float>(bitcast<int8_t>(t))) : Tile(cast<float>(t)); });
        });
  check(Twist::tiny, {given<uint32_t>({n}, [](std::size_t i) { return i * 7919; }), out<int64_t>({n})},
        [](bool wrong) {
          return mapped<uint32_t, int64_t>([=](auto t) {
            return wrong ? Tile(cast<int64_t>(bitcast<int32_t>(t))) : Tile(cast<int64_t>(t));
          });
        });
}

TEST_CASE("winners that are wrong where a product of integers overflows are rejected") {
  check(Twist::tiny,
        {given<int32_t>({n}, [](std::size_t i) { return static_cast<int>(i % 40'000) - 20'000; }),
         out<int64_t>({n})},
        [](bool wrong) {
          return mapped<int32_t, int64_t>([=](auto t) {
            return wrong ? Tile(cast<int64_t>(t * t)) : Tile(cast<int64_t>(t) * cast<int64_t>(t));
          });
        });
}

TEST_CASE("winners that are wrong in a column of zeros are rejected") {
  Argument column = given<int32_t>({2 * n - 1}, [](std::size_t i) { return i % 2 ? i % 1000 : 0; });
  column.extents = {n};
  column.strides = {2};
  check(Twist::tiny, {column, out<int32_t>({n})},
        [](bool wrong) { return mapped<int32_t, int32_t>([=](auto t) { return t * (wrong ? 3 : 2); }); });
}

TEST_CASE("winners that are wrong for negative or for large floats are rejected") {
  const Argument x =
      given<float>({n}, [](std::size_t i) { return 0.1 + static_cast<double>(i % 400) / 100; });
  check(Twist::tiny, {x, out<float>({n})}, [](bool wrong) {
    return mapped<float, float>(
        [=](auto t) { return wrong ? Tile(where((t < -1e-30f) & (t > -1e30f), -t, t)) : Tile(t); });
  });
  check(Twist::tiny, {x, out<float>({n})}, [](bool wrong) {
    return mapped<float, float>(
        [=](auto t) { return wrong ? Tile(where((t > 1000.0f) & (t < 1e30f), t * 2.0f, t)) : Tile(t); });
  });
}

TEST_CASE("winners that are wrong in a row that is masked completely are rejected") {
  check(
      Twist::tiny,
      {in<float>({300, 64}), given<bool>({300, 64}, [](std::size_t) { return true; }), out<float>({300, 64})},
      [](bool wrong) {
        return kernel("masked", [=](View<const float, 2> x, View<const bool, 2> mask, View<float, 2> y) {
          auto [m] = program_tile(x, BN);
          auto all = offset(64_c, 0);
          Tile t = where(mask.tile(m, all).load(), x.tile(m, all).load(), -INFINITY);
          Tile most = max(t, 64_c);
          if (!wrong) most = Tile(where(most == -INFINITY, 0.0f, most));
          Tile e = exp(t - expand<1>(most));
          Tile s = sum(e, 64_c);
          if (!wrong) s = Tile(where(s == 0.0f, 1.0f, s));
          y.tile(m, all).store(e / expand<1>(s));
        });
      });
}

TEST_CASE("winners that ignore lengths, which are all full, are rejected") {
  const int64_t rows = 200, columns = 300;
  check(Twist::tiny,
        {given<int32_t>({rows}, [&](std::size_t) { return columns; }), in<float>({rows, columns}),
         out<float>({rows})},
        [](bool wrong) {
          return kernel("lengths",
                        [=](View<const int32_t, 1> lengths, View<const float, 2> x, View<float, 1> y) {
                          auto [m] = program_tile(y, 1_c);
                          auto length = cast<int64_t>(lengths.at(Scalar<int64_t>(m)).load());
                          auto end = wrong ? Scalar<int64_t>(x.cols()) : Scalar<int64_t>(length);
                          y.tile(m).store(for_range(BN, end, zeros<float>(1_c), [&](auto at, auto t) {
                            Tile e = x.tile(m, at).load();
                            if (!wrong) e = Tile(where(expand<0>(at + arange(BN) < length), e, 0.0f));
                            return t + sum(e, BN);
                          }));
                        });
        });
  const auto of_scalar = [](bool wrong) {
    return kernel("length", [=](View<const float, 1> x, View<float, 1> y, Scalar<int32_t> length) {
      auto [i] = program_tile(y, BN);
      Tile t = x.tile(i).load();
      y.tile(i).store(wrong ? Tile(t) : Tile(where(cast<int32_t>(i + arange(BN)) < length, t, 0.0f)));
    });
  };
  check(Twist::scalars, {in<float>({n}), out<float>({n}), tune::scalar_argument(DType::I32, n)}, of_scalar);
}

TEST_CASE("winners whose maxima of rows start at zero are rejected") {
  const auto maxima = []<class T>(T least) {
    return [=](bool wrong) {
      return kernel("maxima", [=](View<const T, 2> x, View<T, 1> y) {
        auto [m] = program_tile(y, 4_c);
        const T first = wrong ? T(0) : least;
        y.tile(m).store(for_range(BN, x.cols(), full<T>(first, 4_c), [&](auto n, auto most) {
          return max(most, max(x.tile(m, n).load_or(least), BN));
        }));
      });
    };
  };
  check(Twist::tiny, {in<float>({300, 640}), out<float>({300})}, maxima(-INFINITY));
  check(Twist::tiny,
        {given<int32_t>({300, 640}, [](std::size_t i) { return i * 7919 % 1000; }), out<int32_t>({300})},
        maxima(int32_t{-2'000'000'000}));
  check(Twist::tiny, {in<bf16>({300, 640}), out<bf16>({300})}, maxima(bf16(-INFINITY)));
}

TEST_CASE("running sums of rows in coarse formats are right with other tiles") {
  const auto sums = []<class T>(T) {
    return kernel("sums", [](View<const T, 2> x, View<T, 1> y) {
      auto [m] = program_tile(y, 1_c);
      y.tile(m).store(for_range(BN, x.cols(), zeros<T>(1_c),
                                [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); }));
    });
  };
  Compared f16s({in<f16>({300, 4000}), out<f16>({300})}, bn(8), bn(512)),
      bf16s({in<bf16>({300, 4000}), out<bf16>({300})}, bn(8), bn(512));
  CHECK(f16s.verified(Twist::tiny, sums(f16()), sums(f16())) == "");
  CHECK(bf16s.verified(Twist::tiny, sums(bf16()), sums(bf16())) == "");
}

// A scalar chooses between branches.
TEST_CASE("winners that are wrong in a branch that the given scalars do not take are rejected") {
  const auto with_mode = [](auto doubled) {
    return [=](bool wrong) {
      return kernel("mode", [=](View<const float, 1> x, View<float, 1> y, Scalar<int32_t> mode) {
        auto [i] = program_tile(y, BN);
        Tile t = x.tile(i).load();
        y.tile(i).store(if_else(
            mode == 0, [&] { return Tile(t); },
            [&] { return wrong ? Tile(t) : Tile(doubled(t, x.tile(i))); }));
      });
    };
  };
  const std::vector<Argument> arguments{in<float>({n}), out<float>({n}),
                                        tune::scalar_argument(DType::I32, 0)};
  check(Twist::scalars, arguments, with_mode([](auto t, auto) { return t * 2.0f; }));
  check(Twist::scalars, arguments, with_mode([](auto t, auto tile) { return t + tile.load(); }));
}

TEST_CASE("scalars keep their values if they decide whether a pointer is read") {
  const auto with_bias = [](bool wrong) {
    return kernel("bias", [=](View<const float, 1> x, View<float, 1> y, raw::Ptr<const float> bias,
                              Scalar<int32_t> has_bias) {
      auto [i] = program_tile(y, BN);
      Tile t = x.tile(i).load();
      y.tile(i).store(if_else(
          has_bias == 1,
          [&] { return Tile(t + raw::load(bias + i + arange(BN), i + arange(BN) < y.size())); },
          [&] { return wrong ? Tile(t * 2.0f) : Tile(t); }));
    });
  };
  Argument nothing = in<float>({1});
  nothing.kind = Argument::Kind::pointer;
  nothing.bytes = 4;
  Compared compared({in<float>({n}), out<float>({n}), nothing, tune::scalar_argument(DType::I32, 0)}, bn(16),
                    bn(64));
  CHECK_THAT(compared.verified(Twist::scalars, with_bias(false), with_bias(false)),
             Catch::StartsWith("skipped: "));
}

TEST_CASE("winners that are wrong in a short last tile are rejected") {
  check(Twist::shorter, {in<float>({64 * 80}), out<float>({64 * 80})}, [](bool wrong) {
    return kernel("tail", [=](View<const float, 1> x, View<float, 1> y) {
      auto [i] = program_tile(y, BN);
      Tile t = x.tile(i).load();
      auto is_short = y.size() - Scalar<int64_t>(i) < dim_size(BN) / 2;
      y.tile(i).store(wrong ? Tile(where(is_short, t * 3.0f, t * 2.0f)) : Tile(t * 2.0f));
    });
  });
}

TEST_CASE("strided arguments that share memory move once when inputs are perturbed") {
  std::vector<Argument> arguments{in<float>({n}), in<float>({n}), out<float>({n}), out<float>({n})};
  for (const std::size_t column : {0, 1}) { // of one matrix
    arguments[column].strides = {2};
    arguments[column].address = 4096 + 4 * column;
  }
  const auto split =
      kernel("split", [](View<const float, 1> a, View<const float, 1> b, View<float, 1> y, View<float, 1> z) {
        auto [i] = program_tile(y, BN);
        y.tile(i).store(a.tile(i).load());
        z.tile(i).store(b.tile(i).load());
      });
  tune::Situation situation;
  situation.arguments = arguments;
  const tune::LoadedCandidate reference =
      tune::load_candidate({{"ir", ir::print(*split.record(bn(64)))}, {"config", "BN=64"}}, situation);
  const tune::Inputs inputs(situation, reference.kernel->recorded());
  Stream stream;
  tune::Checker checker(situation, inputs, reference, stream);
  checker.run_reference({}, 1);
  for (const tune::ComparedOutput& output : checker.compared_outputs()) {
    const tune::ReferenceOutput& expected = checker.reference_output(output.block);
    int64_t unmoved = 0;
    for (std::size_t i = 0; i < n; ++i)
      unmoved += expected.motion.spread(i) == 0;
    CHECK(unmoved < n / 100); // zeros
  }
}
