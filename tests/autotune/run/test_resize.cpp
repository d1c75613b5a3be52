// Tests how a launch's arguments are converted to another problem.
#include <kiln/autotune/run/resize.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <catch2/catch.hpp>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

using Words = std::vector<std::uint64_t>;

std::shared_ptr<ir::Kernel> recorded() {
  static const auto k =
      kernel("resized", [](View<const float, 2> x, View<float, 1> out, Scalar<std::int64_t> count) {
        auto [m] = program_tile(out, BM);
        out.tile(m).store(sum(x.tile(m, offset(BN, 0)).load(), BN) * cast<float>(count));
      });
  return k.record({});
}

tune::Problem problem(std::int64_t m, std::int64_t n) {
  return {.sizes = {{"M", m}, {"N", n}}, .kind = "f32"};
}

// x: address, 2 extents, 2 strides; out: address, extent, stride; count.
Words words_of(std::uint64_t m, std::uint64_t n, std::uint64_t row, std::uint64_t count) {
  return {4096, m, n, row, 1, 8192, m, 1, count};
}

} // namespace

TEST_CASE("extents and integers follow the size that they equal, and contiguous views stay contiguous") {
  const auto k = recorded();
  const auto layout = ir::ArgumentLayout::of(*k);
  const std::vector<int> sizes{layout.extent_word(0, 0), layout.extent_word(0, 1)};
  CHECK(tune::resized_words(*k, words_of(64, 32, 32, 32), sizes, problem(64, 32), problem(100, 7)) ==
        words_of(100, 7, 7, 7));
  CHECK(tune::resized_words(*k, words_of(64, 32, 40, 5), sizes, problem(64, 32), problem(100, 7)) ==
        words_of(100, 7, 40, 5));
  // Both sizes are 64, so out's extent could be either; this is an error unless both become equal.
  CHECK(tune::resized_words(*k, words_of(64, 64, 64, 1), sizes, problem(64, 64), problem(8, 8)) ==
        words_of(8, 8, 8, 1));
  CHECK_THROWS_WITH(tune::resized_words(*k, words_of(64, 64, 64, 1), sizes, problem(64, 64), problem(8, 9)),
                    Catch::Contains("an extent of 64 may be any of several sizes of M=64,N=64"));
  CHECK_THROWS_AS(tune::resized_words(*k, words_of(64, 64, 64, 1), sizes, problem(64, 64),
                                      {.sizes = {{"M", 8}}, .kind = "f32"}),
                  UserError);
}
