// Tests that kernels' results do not depend on the floating-point modes of the surrounding program.
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cstdint>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace kiln;

KILN_DIM(BN);

namespace {

// Restores the calling thread's modes.
class Modes {
public:
  Modes() { std::fegetenv(&before_); }
  ~Modes() { std::fesetenv(&before_); }
  Modes(const Modes&) = delete;

private:
  std::fenv_t before_;
};

enum class By { Launch, Interpreter };

template <class K> std::vector<float> run(const K& kernel, const std::vector<float>& x, By by) {
  std::vector<float> y(x.size(), -1);
  const TensorView<const float, 1> in(x.data(), {static_cast<std::int64_t>(x.size())});
  const TensorView<float, 1> out(y.data(), {static_cast<std::int64_t>(y.size())});
  if (by == By::Interpreter) {
    kernel.interpret({BN = 64}, in, out);
    return y;
  }
  Stream stream;
  kernel.launch(stream, {BN = 64}, in, out);
  stream.synchronize();
  return y;
}

// Elements of a single portion, which the calling thread runs, and of many, which the pool's threads share.
const std::size_t sizes[] = {37, 1'000'000};

} // namespace

#if defined(__x86_64__)
TEST_CASE("denormals are kept in a program that flushes them to zero") {
  const auto twice = kernel("twice_and_log", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(t * 2.0f + log(t) * 0.0f);
  });
  // As bits, because comparisons of floats treat denormals as zero here.
  constexpr std::uint32_t denormal = 0x00100000, doubled = 0x00200000;
  const Modes modes;
  constexpr unsigned flush_and_zero = 0x8040;
  _mm_setcsr(_mm_getcsr() | flush_and_zero);
  for (const std::size_t n : sizes)
    for (const By by : {By::Launch, By::Interpreter}) {
      if (by == By::Interpreter && n > 100) continue;
      const auto y = run(twice, std::vector<float>(n, std::bit_cast<float>(denormal)), by);
      const auto right = std::count_if(y.begin(), y.end(),
                                       [](float v) { return std::bit_cast<std::uint32_t>(v) == doubled; });
      CHECK(right == static_cast<std::ptrdiff_t>(n));
    }
  CHECK((_mm_getcsr() & flush_and_zero) == flush_and_zero);
}
#endif

TEST_CASE("results are rounded to nearest in a program that rounds in another way") {
  // Constants are folded when the kernel is compiled, which also happens in the other mode.
  const auto rounds = kernel("rounds", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(round(t) + exp(t) + zeros<float>(BN) / 3.0f + 1.0f / (zeros<float>(BN) + 3.0f));
  });
  for (const std::size_t n : sizes)
    for (const By by : {By::Launch, By::Interpreter}) {
      if (by == By::Interpreter && n > 100) continue;
      const std::vector<float> x(n, 1.0f / 3);
      const Modes modes;
      std::fesetround(FE_UPWARD);
      const auto upward = run(rounds, x, by);
      CHECK(std::fegetround() == FE_UPWARD);
      std::fesetround(FE_TONEAREST);
      CHECK(upward == run(rounds, x, by));
    }
}

TEST_CASE("lanes beyond the end of a tile do not trigger the program's traps") {
  const auto reciprocals = kernel("reciprocals", [](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(1.0f / x.tile(i).load());
  });
  for (const std::size_t n : sizes) {
    const Modes modes;
    std::feclearexcept(FE_ALL_EXCEPT); // flags that are set already would trap at once
    feenableexcept(FE_INVALID | FE_DIVBYZERO);
    const auto y = run(reciprocals, std::vector<float>(n + 1, 1.5f), By::Launch);
    CHECK(fegetexcept() == (FE_INVALID | FE_DIVBYZERO));
    CHECK(y.back() == 1 / 1.5f);
  }
}
