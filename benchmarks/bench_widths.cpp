// Measures what odd widths, narrow rows and transposed inputs cost on a CPU, compared with a neighbour that
// has none.
//
//   build/bin/bench_widths                       all cases, on 16 Mi elements in memory
//   build/bin/bench_widths softmax bf16          the cases whose names contain both words
//   build/bin/bench_widths --elements 65536      on arrays that fit in the caches
//
// Each case alternates with its neighbour: the same work on rows of the next even width, a flat pass over as
// many bytes, or the same matrix that is not transposed. The program prints the smallest and the median time
// of an element, and the ratio of the smallest times. It runs on one thread.
#include "numbers.h"

#include <kiln/kiln.h>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sched.h>
#include <string>
#include <vector>

using namespace kiln;

namespace {

std::int64_t elements = std::int64_t{16} << 20;
int rounds = 7;
std::vector<std::string> words;

double seconds(const std::function<void()>& work, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i)
    work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

struct Work {
  std::int64_t elements;
  std::function<void()> run;
};

// Alternates a case with its neighbour, and prints the times of one element.
void compare(const std::string& name, double goal, const Work& odd, const Work& neighbour) {
  odd.run(), neighbour.run();
  const int times = std::max(1, static_cast<int>(2e-3 / std::max(seconds(neighbour.run, 1), 1e-7)));
  std::vector<double> of_odd, of_neighbour;
  for (int i = 0; i < rounds; ++i) {
    of_odd.push_back(seconds(odd.run, times) * 1e9 / static_cast<double>(odd.elements));
    of_neighbour.push_back(seconds(neighbour.run, times) * 1e9 / static_cast<double>(neighbour.elements));
  }
  const double best = *std::min_element(of_odd.begin(), of_odd.end());
  const double best_neighbour = *std::min_element(of_neighbour.begin(), of_neighbour.end());
  const double ratio = best / best_neighbour;
  fmt::print("{:<52} {:6.3f} ({:6.3f})  neighbour {:6.3f} ({:6.3f})  ratio {:5.2f}, goal {:4.2f} {}\n", name,
             best, benchmarks::median(of_odd), best_neighbour, benchmarks::median(of_neighbour), ratio, goal,
             ratio > goal ? "MISSED" : "");
  std::fflush(stdout);
}

bool wanted(const std::string& name) {
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

template <class T> Tensor<T, 1> filled(std::int64_t n) {
  auto t = Tensor<T, 1>::empty({n});
  std::uint32_t state = 12345;
  for (T& x : t)
    x = static_cast<T>(static_cast<float>(state = state * 1664525u + 1013904223u) / 4e9f - 0.5f);
  return t;
}

template <class T> class Cases {
public:
  Cases()
      : x_(filled<T>(elements + elements / 2 + (1 << 18))), y_(filled<T>(x_.size())),
        rows_(filled<T>(x_.size())), gamma_(filled<T>(1 << 20)), beta_(filled<T>(1 << 20)) {}

  void run() {
    odd();
    narrow();
    transposed();
  }

private:
  using In = TensorView<const T, 2>;
  using Out = TensorView<T, 2>;
  using Kernel = std::function<void(In, Out)>;
  static std::string named(const std::string& what) { return std::string(name(dtype_of<T>)) + " " + what; }
  In in(std::int64_t rows, std::int64_t columns) {
    return In(TensorView<const T, 1>(x_).slice(0, 0, rows * columns).reshape({rows, columns}));
  }
  Out out(std::int64_t rows, std::int64_t columns) {
    return Out(y_.view().slice(0, 0, rows * columns).reshape({rows, columns}));
  }
  TensorView<const T, 1> gamma(std::int64_t n) { return TensorView<const T, 1>(gamma_).slice(0, 0, n); }
  TensorView<const T, 1> beta(std::int64_t n) { return TensorView<const T, 1>(beta_).slice(0, 0, n); }

  Work over(const Kernel& kernel, In x, Out y) {
    return {x.rows() * x.cols(), [=, this] {
              kernel(x, y);
              stream_.synchronize();
            }};
  }
  // The rows of at least `elements` elements, so that a case and its neighbour are on the same side of the
  // size from which on results bypass the caches.
  static std::int64_t rows_of(std::int64_t columns) { return (elements + columns - 1) / columns; }
  Work over(const Kernel& kernel, std::int64_t columns) {
    return over(kernel, in(rows_of(columns), columns), out(rows_of(columns), columns));
  }
  Work flat() {
    return over([this](In x, Out y) { assign(stream_, y, relu(x + T(0.25f))); }, 4096);
  }

  std::vector<std::pair<std::string, Kernel>> row_kernels() {
    return {{"softmax", [this](In x, Out y) { ops::softmax(stream_, x, y); }},
            {"layernorm",
             [this](In x, Out y) { ops::layernorm(stream_, x, gamma(x.cols()), beta(x.cols()), y); }},
            {"rmsnorm", [this](In x, Out y) { ops::rmsnorm(stream_, x, gamma(x.cols()), y); }}};
  }
  std::vector<std::pair<std::string, Kernel>> expressions() {
    return {{"assign row", [this](In x, Out y) { assign(stream_, y, relu(x + beta(x.cols()))); }},
            {"assign column",
             [this](In x, Out y) {
               auto scale = TensorView<const T, 1>(rows_).slice(0, 0, x.rows()).reshape({x.rows(), 1});
               assign(stream_, y, relu(x * scale));
             }},
            {"assign both", [this](In x, Out y) {
               auto scale = TensorView<const T, 1>(rows_).slice(0, 0, x.rows()).reshape({x.rows(), 1});
               assign(stream_, y, relu(x * scale + beta(x.cols())));
             }}};
  }

  void odd() {
    auto kernels = row_kernels();
    for (auto& e : expressions())
      kernels.push_back(e);
    for (auto& [name, kernel] : kernels)
      for (auto [columns, even] : {std::pair<std::int64_t, std::int64_t>{8191, 8192},
                                   {8193, 8192},
                                   {4099, 4096},
                                   {4097, 4096},
                                   {1021, 1024},
                                   {50257, 50256}}) {
        if (elements < columns) continue;
        const std::string what = named(fmt::format("{} odd rows of {}", name, columns));
        if (wanted(what)) compare(what, 1.1, over(kernel, columns), over(kernel, even));
      }
    // The same with ops on matrices that are not contiguous.
    Kernel activation = [this](In x, Out y) { ops::activation(stream_, x, y, ops::Activation::silu); };
    const std::string what = named("activation odd rows of 4097 in rows of 4099");
    const std::int64_t rows = std::max<std::int64_t>(1, elements / 4099);
    if (wanted(what))
      compare(
          what, 1.1, over(activation, in(rows, 4099).slice(1, 0, 4097), out(rows, 4099).slice(1, 0, 4097)),
          over(activation, in(rows, 4096 + 64).slice(1, 0, 4096), out(rows, 4096 + 64).slice(1, 0, 4096)));
  }

  void narrow() {
    for (std::int64_t columns : {2, 3, 4, 5, 7, 8, 12, 15}) {
      for (auto& [name, kernel] : expressions()) {
        const std::string what = named(fmt::format("{} narrow rows of {}", name, columns));
        if (wanted(what)) compare(what, 2, over(kernel, columns), flat());
      }
      for (auto& [name, kernel] : row_kernels()) {
        const std::string what = named(fmt::format("{} narrow rows of {}", name, columns));
        if (wanted(what)) compare(what, 4, over(kernel, columns), flat());
      }
      const std::int64_t rows = rows_of(columns);
      const std::string padded = named(fmt::format("assign padded narrow rows of {}", columns));
      if (wanted(padded) && columns % 2 == 1) { // in rows of one more element
        Kernel scale = [this](In x, Out y) { assign(stream_, y, relu(x * T(0.5f))); };
        compare(padded, 2,
                over(scale, in(rows, columns + 1).slice(1, 0, columns),
                     out(rows, columns + 1).slice(1, 0, columns)),
                flat());
      }
      const std::string cut = named(fmt::format("assign cut narrow rows of {}", columns));
      if (wanted(cut) && columns % 2 == 1) { // from rows of one more element to rows that follow one another
        Kernel scale = [this](In x, Out y) { assign(stream_, y, relu(x * T(0.5f))); };
        compare(cut, 2, over(scale, in(rows, columns + 1).slice(1, 0, columns), out(rows, columns)), flat());
      }
      const std::string planes = named(fmt::format("assign planes narrow rows of {}", columns));
      if (wanted(planes)) { // from planes to interleaved channels
        Kernel scale = [this](In x, Out y) { assign(stream_, y, relu(x * T(0.5f))); };
        compare(planes, 2.5, over(scale, in(columns, rows).transpose(), out(rows, columns)), flat());
      }
    }
  }

  void transposed() {
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements)));
    for (auto& [name, kernel] : row_kernels())
      for (std::int64_t columns : {side / 4, side, 4 * side, side + 1}) {
        const std::int64_t rows = elements / columns;
        const std::string one = named(fmt::format("{} transposed x, rows of {}", name, columns));
        if (wanted(one))
          compare(one, 2.5, over(kernel, in(columns, rows).transpose(), out(rows, columns)),
                  over(kernel, in(rows, columns), out(rows, columns)));
        const std::string both = named(fmt::format("{} transposed x and y, rows of {}", name, columns));
        if (wanted(both))
          compare(both, 2.5, over(kernel, in(columns, rows).transpose(), out(columns, rows).transpose()),
                  over(kernel, in(rows, columns), out(rows, columns)));
      }
    auto kernels = expressions();
    kernels.emplace_back("activation",
                         [this](In x, Out y) { ops::activation(stream_, x, y, ops::Activation::relu); });
    for (auto& [name, kernel] : kernels) {
      const std::string one = named(fmt::format("{} transposed x, rows of {}", name, side));
      if (wanted(one))
        compare(one, 2.5, over(kernel, in(side, side).transpose(), out(side, side)),
                over(kernel, in(side, side), out(side, side)));
    }
  }

  Stream stream_;
  Tensor<T, 1> x_, y_, rows_, gamma_, beta_;
};

} // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool value = i + 1 < argc;
    if (word == "--elements" && value)
      elements = std::atoll(argv[++i]);
    else if (word == "--rounds" && value)
      rounds = std::max(1, std::atoi(argv[++i]));
    else
      words.push_back(word);
  }
  // The process gets one CPU before its first stream starts threads.
  cpu_set_t present, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof present, &present);
  int cpu = CPU_SETSIZE - 1;
  while (cpu > 0 && !CPU_ISSET(cpu, &present))
    --cpu;
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  Cases<float>().run();
  Cases<bf16>().run();
}
