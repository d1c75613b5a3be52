// Compares kernels of many stages with C++ loops of the same algorithm: how long they compile, and how fast
// they are.
//
//   build/bin/bench_growth
//
// Networks and FFTs are recorded as plain C++ loops over their stages. Each stage reads the tile of the stage
// before through two index maps, so that a compiler which evaluates tiles again for each would need time and
// code that double with every stage. The C++ loops run on one thread; KILN_NUM_THREADS=1
// makes Kiln's kernels do so too.
#include "numbers.h"

#include <fmt/format.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace kiln;

KILN_DIM(BN);

namespace {

constexpr int row = 1024, rows = 64, fft_stages = 10;

template <class F> double seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Alternates both, and returns the median time of each.
template <class A, class B> std::pair<double, double> alternate(A&& a, B&& b) {
  std::vector<double> of_a, of_b;
  for (int i = 0; i < 21; ++i)
    of_a.push_back(seconds(a)), of_b.push_back(seconds(b));
  auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + 10, v.end());
    return v[10];
  };
  return {median(of_a), median(of_b)};
}

// --- A thousand elementwise operations ---------------------------------------------------------------------

constexpr int operations = 1000;

template <class Step> auto chain_of(const char* name, Step step) {
  return kernel(name, [step](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    for (int k = 0; k < operations; ++k)
      t = step(t, k);
    y.tile(i).store(t);
  });
}

const auto additions = chain_of("additions", [](auto t, int k) { return t + float(k); });
const auto divisions = chain_of("divisions", [](auto t, int k) { return t / (1.0f + float(k)); });
const auto roots = chain_of("square roots", [](auto t, int) { return sqrt(abs(t)); });
const auto exponentials = chain_of("exponentials", [](auto t, int) { return exp(t); });
const auto logarithms = chain_of("logarithms", [](auto t, int) { return log(t); });
const auto sines = chain_of("sines", [](auto t, int k) { return sin(t) * 1.5f + float(k); });
const auto tangents = chain_of("hyperbolic tangents", [](auto t, int) { return tanh(t); });
const auto error_functions = chain_of("error functions", [](auto t, int) { return erf(t); });
const auto powers = chain_of("powers", [](auto t, int) { return pow(t, 0.3f); });
const auto roundings =
    chain_of("conversions to bf16", [](auto t, int) { return cast<float>(cast<bf16>(t)) * 1.01f; });
const auto integers =
    chain_of("conversions to i32", [](auto t, int) { return cast<float>(cast<std::int32_t>(t)) * 1.5f; });
const auto selections =
    chain_of("selections", [](auto t, int k) { return where(t > float(k), t, t * 0.5f); });

template <class K> void compile(const K& chain, const char* name) {
  auto x = Tensor<float, 1>::zeros({4096}), y = Tensor<float, 1>::zeros({4096});
  Stream stream;
  const double first = seconds([&] {
    chain.launch(stream, {BN = 64}, x, y);
    stream.synchronize();
  });
  fmt::print("  {:<28} {:>8.2f} s\n", name, first);
}

// --- A sorting network -------------------------------------------------------------------------------------

template <int Distance, class T> auto partners(const T& t) {
  return split(permute<0, 2, 1>(reshape(t, Constant<row / 2 / Distance>{}, 2_c, Constant<Distance>{})));
}

// Orders each pair of elements that are Distance apart; `run` is the length of the sequences that are merged.
template <int Distance, class T> auto exchanged(const T& t, int run) {
  auto [a, b] = partners<Distance>(t);
  auto [first, second] = partners<Distance>(arange(1024_c));
  Tile low = min(a, b), high = max(a, b), up = (first & run) == 0;
  return reshape(permute<0, 2, 1>(join(where(up, low, high), where(up, high, low))), 1024_c);
}

template <class T> auto exchanged(const T& t, int distance, int run) {
  switch (distance) {
  case 1: return exchanged<1>(t, run);
  case 2: return exchanged<2>(t, run);
  case 4: return exchanged<4>(t, run);
  case 8: return exchanged<8>(t, run);
  case 16: return exchanged<16>(t, run);
  case 32: return exchanged<32>(t, run);
  case 64: return exchanged<64>(t, run);
  case 128: return exchanged<128>(t, run);
  case 256: return exchanged<256>(t, run);
  default: return exchanged<512>(t, run);
  }
}

const auto network = kernel("network", [](View<const float, 2> x, View<float, 2> y) {
  auto [r, all] = program_tile(x, 1_c, 1024_c);
  Tile v = reshape(x.tile(r, all).load(), 1024_c);
  for (int run = 2; run <= row; run *= 2)
    for (int distance = run / 2; distance > 0; distance /= 2)
      v = exchanged(v, distance, run);
  y.tile(r, all).store(reshape(v, 1_c, 1024_c));
});

void sort_in_cpp(const float* x, float* y) {
  std::memcpy(y, x, row * sizeof(float));
  for (int run = 2; run <= row; run *= 2)
    for (int distance = run / 2; distance > 0; distance /= 2)
      for (int block = 0; block < row; block += 2 * distance) {
        const bool up = (block & run) == 0;
        for (int i = block; i < block + distance; ++i) {
          const float low = std::min(y[i], y[i + distance]), high = std::max(y[i], y[i + distance]);
          y[i] = up ? low : high, y[i + distance] = up ? high : low;
        }
      }
}

// --- An FFT ------------------------------------------------------------------------------------------------

// Stages of constant geometry: each takes elements half a row apart, and puts its results next to each other.
const auto fft = kernel("fft", [](View<const float, 3> x, View<const float, 3> factors, View<float, 3> y) {
  auto [r] = program_tile(x, 1_c);
  Scalar<std::int64_t> n = r;
  auto all = offset(1024_c, 0);
  auto half = offset(512_c, 0);
  Tile re = x.tile(n, 0, all).load(), im = x.tile(n, 1, all).load();
  for (int stage = 0; stage < fft_stages; ++stage) {
    Tile c = factors.tile(stage, 0, half).load(), s = factors.tile(stage, 1, half).load();
    auto [ar, br] = split(trans(reshape(re, 2_c, 512_c)));
    auto [ai, bi] = split(trans(reshape(im, 2_c, 512_c)));
    Tile dr = ar - br, di = ai - bi;
    re = interleave(ar + br, dr * c - di * s);
    im = interleave(ai + bi, dr * s + di * c);
  }
  y.tile(n, 0, all).store(re);
  y.tile(n, 1, all).store(im);
});

void fft_in_cpp(const float* x, const float* factors, float* y) {
  float buffer[2][2 * row];
  const float* from = x;
  for (int stage = 0; stage < fft_stages; ++stage) {
    float* to = stage == fft_stages - 1 ? y : buffer[stage % 2];
    const float *c = factors + stage * row, *s = c + row / 2;
    for (int i = 0; i < row / 2; ++i) {
      const float ar = from[i], br = from[i + row / 2], ai = from[row + i], bi = from[row + i + row / 2];
      const float dr = ar - br, di = ai - bi;
      to[2 * i] = ar + br, to[2 * i + 1] = dr * c[i] - di * s[i];
      to[row + 2 * i] = ai + bi, to[row + 2 * i + 1] = dr * s[i] + di * c[i];
    }
    from = to;
  }
}

// --- A histogram -------------------------------------------------------------------------------------------

const auto histogram =
    kernel("histogram", [](View<const std::int32_t, 1> bins, View<std::int32_t, 1> counts) {
      auto [i] = program_tile(bins, BN);
      counts.at(cast<std::int64_t>(bins.tile(i).load_or(-1))).atomic_add(full<std::int32_t>(1, BN));
    });

// --- Rows added to rows by index ---------------------------------------------------------------------------

KILN_DIM(BD);

const auto scatter_add =
    kernel("scatter_add", [](View<const std::int32_t, 1> rows, View<const float, 2> x, View<float, 2> table) {
      auto [i, j] = program_tile(x, BN, BD);
      Tile row = cast<std::int64_t>(rows.tile(i).load_or(-1));
      table.at(expand<1>(row), expand<0>(j + arange(BD))).atomic_add(x.tile(i, j).load());
    });

void scatter_add_in_cpp(const std::int32_t* rows, const float* x, float* table, std::int64_t count,
                        std::int64_t columns) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* to = table + rows[i] * columns;
    for (std::int64_t c = 0; c < columns; ++c)
      to[c] += x[i * columns + c];
  }
}

void print_row(const std::string& name, double compile, double own, double cpp, const char* of,
               double items) {
  fmt::print("  {:<28} {:>8.2f} s {:>10.2f} ns {:>10.2f} ns {:>8.2f}   {}\n", name, compile,
             own / items * 1e9, cpp / items * 1e9, own / cpp, of);
}

} // namespace

int main() {
  fmt::print("First launch, which compiles {} operations of one kind in a row (goal: 2 s):\n", operations);
  compile(additions, "additions");
  compile(divisions, "divisions");
  compile(roots, "square roots");
  compile(exponentials, "exponentials");
  compile(logarithms, "logarithms");
  compile(sines, "sines, products and sums");
  compile(tangents, "hyperbolic tangents");
  compile(error_functions, "error functions");
  compile(powers, "powers");
  compile(roundings, "conversions to bf16");
  compile(integers, "conversions to i32");
  compile(selections, "selections");

  fmt::print("\n  {:<28} {:>10} {:>13} {:>13} {:>8}\n", "", "compile", "Kiln", "C++", "times");
  std::mt19937 random(std::random_device{}());
  std::uniform_real_distribution<float> number(-1, 1);
  Stream stream;
  {
    auto x = Tensor<float, 2>::empty({rows, row}), y = Tensor<float, 2>::empty({rows, row});
    std::vector<float> sorted(rows * row);
    std::generate(x.begin(), x.end(), [&] { return number(random); });
    auto own = [&] { network.launch(stream, {}, x, y), stream.synchronize(); };
    auto cpp = [&] {
      for (int r = 0; r < rows; ++r)
        sort_in_cpp(x.data() + r * row, sorted.data() + r * row);
    };
    const double compile = seconds(own);
    const auto [a, b] = alternate(own, cpp);
    if (std::memcmp(y.data(), sorted.data(), sorted.size() * sizeof(float)) != 0) return 1;
    print_row("bitonic sort of 1024", compile, a, b, "an element", rows * row);
  }
  {
    auto x = Tensor<float, 3>::empty({rows, 2, row}), y = Tensor<float, 3>::empty({rows, 2, row});
    auto factors = Tensor<float, 3>::empty({fft_stages, 2, row / 2});
    std::vector<float> expected(2 * rows * row);
    std::generate(x.begin(), x.end(), [&] { return number(random); });
    for (int stage = 0; stage < fft_stages; ++stage)
      for (int i = 0; i < row / 2; ++i) {
        const double angle = -2 * M_PI * (i >> stage << stage) / row;
        factors.data()[stage * row + i] = static_cast<float>(std::cos(angle));
        factors.data()[stage * row + row / 2 + i] = static_cast<float>(std::sin(angle));
      }
    auto own = [&] { fft.launch(stream, {}, x, factors, y), stream.synchronize(); };
    auto cpp = [&] {
      for (int r = 0; r < rows; ++r)
        fft_in_cpp(x.data() + r * 2 * row, factors.data(), expected.data() + r * 2 * row);
    };
    const double compile = seconds(own);
    const auto [a, b] = alternate(own, cpp);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (!(std::fabs(y.data()[i] - expected[i]) < 1e-3f)) return 1;
    print_row("FFT of 1024", compile, a, b, "an element", rows * row);
  }
  for (int bins : {16, 256, 4096, 65536}) {
    constexpr int count = 1 << 20;
    auto x = Tensor<std::int32_t, 1>::empty({count}), counts = Tensor<std::int32_t, 1>::zeros({bins});
    std::vector<std::int32_t> expected(static_cast<std::size_t>(bins));
    std::generate(x.begin(), x.end(),
                  [&] { return static_cast<int>(random() % static_cast<unsigned>(bins)); });
    auto own = [&] { histogram.launch(stream, {BN = 1024}, x, counts), stream.synchronize(); };
    auto cpp = [&] {
      for (int i = 0; i < count; ++i)
        ++expected[static_cast<std::size_t>(x.data()[i])];
    };
    const double compile = seconds(own);
    cpp();
    const auto [a, b] = alternate(own, cpp);
    if (std::memcmp(counts.data(), expected.data(), expected.size() * sizeof(std::int32_t)) != 0) return 1;
    print_row(fmt::format("histogram of {} bins", bins), compile, a, b, "an element", count);
  }
  for (std::int64_t columns : {64, 256})
    for (std::int64_t table_rows : {512, 50000}) {
      constexpr std::int64_t count = 4096;
      auto rows = Tensor<std::int32_t, 1>::empty({count});
      auto x = Tensor<float, 2>::empty({count, columns}),
           table = Tensor<float, 2>::zeros({table_rows, columns});
      std::vector<float> expected(static_cast<std::size_t>(table_rows * columns));
      std::generate(rows.begin(), rows.end(),
                    [&] { return static_cast<std::int32_t>(random() % static_cast<unsigned>(table_rows)); });
      // Small integers, so that sums are exact in every order.
      std::generate(x.begin(), x.end(), [&] { return static_cast<float>(random() % 7) - 3; });
      auto own = [&] {
        scatter_add.launch(stream, {BN = 16, BD = columns}, rows, x, table), stream.synchronize();
      };
      auto cpp = [&] { scatter_add_in_cpp(rows.data(), x.data(), expected.data(), count, columns); };
      const double compile = seconds(own);
      cpp();
      const auto [a, b] = alternate(own, cpp);
      if (std::memcmp(table.data(), expected.data(), expected.size() * sizeof(float)) != 0) return 1;
      print_row(fmt::format("rows of {} into {}", columns, table_rows), compile, a, b, "an element",
                static_cast<double>(count * columns));
    }
}
