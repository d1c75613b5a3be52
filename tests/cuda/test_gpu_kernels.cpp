// Tests every mechanism of the generated GPU code once, against the host. These tests come first on a new
// GPU.
#include "exact_gelu.h"
#include "gpu_test.h"

#include <dsl/random_arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>
#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/dims.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

// A host tensor of random integers, small enough that sums are exact.
template <class T, int R> Tensor<T, R> whole_numbers(std::mt19937_64& random, const Extent (&extents)[R]) {
  auto t = Tensor<T, R>::empty(extents);
  for (T& x : t)
    x = T(static_cast<float>(static_cast<int>(random() % 15) - 7));
  return t;
}
template <class T> double wide(T x) { return static_cast<double>(static_cast<float>(x)); }

// Calls function(stream, views on the device...) and copies the memory back.
template <class F, class... V> void run_on(Device device, const F& function, const V&... views) {
  Mirror mirror(device);
  (mirror.add(views), ...);
  mirror.to_device();
  function(mirror.stream(), mirror(views)...);
  mirror.stream().synchronize();
  mirror.to_host();
}

} // namespace

TEST_CASE("vector add of any length, layout class and number of warps", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  const auto add = kernel("gpu_add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(x.tile(i).load() + y.tile(i).load());
  });
  for (std::int64_t n : {std::int64_t{1}, std::int64_t{1024}, static_cast<std::int64_t>(random() % 9000 + 2)})
    for (std::int64_t warps : {1, 4, 32})
      for (std::int64_t first : {0, 1}) {
        INFO(n << " elements from " << first << ", " << warps << " warps");
        auto x = whole_numbers<float>(random, {n + 1}), y = whole_numbers<float>(random, {n + 1});
        auto out = Tensor<float, 1>::zeros({n + 2});
        auto part = [&](auto& t) { return t.view().slice(0, first, n + first); };
        run_on(
            gpu.device(), [&](Stream& s, auto... v) { add.launch(s, {BN = 512, num_warps = warps}, v...); },
            part(x), part(y), part(out));
        for (std::int64_t i = 0; i < n + 2; ++i) {
          const bool inside = i >= first && i < n + first;
          REQUIRE(out.data()[i] == (inside ? x.data()[i] + y.data()[i] : 0));
        }
      }
}

TEST_CASE("reductions and scans along either axis", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  const auto reduce =
      kernel("gpu_reduce", [](View<const float, 2> x, View<float, 1> sums, View<float, 1> most,
                              View<int, 1> where_least, View<float, 2> running) {
        auto row = program_id(0) * dim_size(BM);
        auto r = offset(BM, row);
        auto c = offset(BN, 0);
        Tile t = x.tile(r, c).load();
        sums.tile(r).store(sum(t, BN));
        most.tile(r).store(max(t, BN));
        where_least.tile(r).store(argmin(t, BN));
        running.tile(r, c).store(cumsum(t, BM));
      });
  for (int i = 0; i < 4; ++i) {
    const auto rows = static_cast<std::int64_t>(random() % 12 + 1),
               cols = static_cast<std::int64_t>(random() % 300 + 1);
    const std::int64_t warps = std::int64_t{1} << random() % 5;
    INFO(rows << " x " << cols << ", " << warps << " warps");
    auto x = whole_numbers<float>(random, {rows, cols});
    auto sums = Tensor<float, 1>::zeros({rows}), most = Tensor<float, 1>::zeros({rows});
    auto least = Tensor<int, 1>::zeros({rows});
    auto running = Tensor<float, 2>::zeros({rows, cols});
    // The tile has the extents of the tensor, because elements outside of the view would take part.
    const Config config = {BM = rows, BN = cols, num_warps = warps};
    run_on(
        gpu.device(), [&](Stream& s, auto... v) { reduce.launch(s, config, Grid{1, 1, 1}, v...); }, x.view(),
        sums.view(), most.view(), least.view(), running.view());
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * cols;
      REQUIRE(sums.data()[r] == std::accumulate(row, row + cols, 0.0f));
      REQUIRE(most.data()[r] == *std::max_element(row, row + cols));
      REQUIRE(least.data()[r] == std::min_element(row, row + cols) - row);
      for (std::int64_t c = 0; c < cols; ++c) {
        float before = r ? running.data()[(r - 1) * cols + c] : 0;
        REQUIRE(running.data()[r * cols + c] == before + row[c]);
      }
    }
  }
}

TEMPLATE_TEST_CASE("products of ragged matrices, with tensor cores where they fit", "[gpu]", float, double,
                   bf16, f16) {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  using T = TestType;
  for (int i = 0; i < 5; ++i) {
    const auto m = static_cast<std::int64_t>(random() % 100 + 1),
               n = static_cast<std::int64_t>(random() % 100 + 1),
               k = static_cast<std::int64_t>(random() % 100 + 1);
    INFO(m << " x " << n << " x " << k);
    auto a = whole_numbers<T>(random, {m, k}), b = whole_numbers<T>(random, {k, n});
    auto c = Tensor<T, 2>::zeros({m, n});
    auto check = [&] {
      for (std::int64_t r = 0; r < m; ++r)
        for (std::int64_t q = 0; q < n; ++q) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l)
            sum += wide(a.data()[r * k + l]) * wide(b.data()[l * n + q]);
          // Exact, and then rounded once.
          REQUIRE(wide(c.data()[r * n + q]) == wide(T(static_cast<float>(sum))));
        }
      c.fill(T(0.0f));
    };
    run_on(gpu.device(), [&](Stream& s, auto... v) { ops::matmul(s, v...); }, a.view(), b.view(), c.view());
    check();
    const Config config = {
        ops::BM = std::int64_t{16} << random() % 3, ops::BN = std::int64_t{8} << random() % 4,
        ops::BK = std::int64_t{16} << random() % 2, num_warps = std::int64_t{1} << random() % 4};
    INFO(config.to_string());
    run_on(
        gpu.device(),
        [&](Stream& s, auto av, auto bv, auto cv) {
          ops::detail::matmul_kernel.launch(s, config,
                                            {std::is_same_v<T, double> ? DType::F64 : DType::F32, 0},
                                            {ops::Input(av), ops::Input(bv), ops::Output(cv)});
        },
        a.view(), b.view(), c.view());
    check();
  }
}

TEST_CASE("softmax of rows that fit in a tile and of longer ones", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  for (std::int64_t cols : {1, 77, 4096, 20001}) {
    const std::int64_t rows = 5;
    auto x = whole_numbers<float>(random, {rows, cols}), y = Tensor<float, 2>::zeros({rows, cols});
    run_on(gpu.device(), [](Stream& s, auto... v) { ops::softmax(s, v...); }, x.view(), y.view());
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * cols;
      double total = 0, most = *std::max_element(row, row + cols);
      for (std::int64_t c = 0; c < cols; ++c)
        total += std::exp(row[c] - most);
      for (std::int64_t c = 0; c < cols; ++c) {
        const double expected = std::exp(row[c] - most) / total;
        REQUIRE(std::abs(y.data()[r * cols + c] - expected) <= 1e-5 * expected);
      }
    }
  }
}

TEST_CASE("atomics of many programs on few elements", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  const auto count = kernel("gpu_count", [](View<const int, 1> x, raw::Ptr<int> bins, raw::Ptr<float> sum,
                                            raw::Ptr<int> most, View<int, 1> before) {
    auto [i] = program_tile(x, BN);
    Tile v = x.tile(i).load_or(-1);
    auto inside = v >= 0;
    Tile seen = raw::atomic_add(bins + v, 1, inside);
    raw::atomic_add(sum + v * 0, cast<float>(v), inside);
    raw::atomic_max(most + v * 0, v, inside);
    before.tile(i).store(seen);
  });
  const std::int64_t n = 5000, bins = 7;
  auto x = Tensor<int, 1>::empty({n}), found = Tensor<int, 1>::zeros({bins}),
       most = Tensor<int, 1>::zeros({1}), before = Tensor<int, 1>::zeros({n});
  auto sum = Tensor<float, 1>::zeros({1});
  std::vector<int> expected(bins);
  for (int& v : x)
    ++expected[static_cast<std::size_t>(v = static_cast<int>(random() % bins))];
  run_on(
      gpu.device(),
      [&](Stream& s, auto xv, auto bv, auto sv, auto mv, auto before_v) {
        count.launch(s, {BN = 128}, TensorView<const int, 1>(xv), bv.data(), sv.data(), mv.data(), before_v);
      },
      x.view(), found.view(), sum.view(), most.view(), before.view());
  CHECK(std::vector<int>(found.begin(), found.end()) == expected);
  CHECK(sum.data()[0] == std::accumulate(x.begin(), x.end(), 0.0f));
  CHECK(most.data()[0] == bins - 1);
  // Each element has seen each number once.
  std::vector<std::vector<bool>> numbers;
  for (int e : expected)
    numbers.emplace_back(static_cast<std::size_t>(e));
  for (std::int64_t i = 0; i < n; ++i) {
    auto place = numbers[static_cast<std::size_t>(x.data()[i])];
    REQUIRE(static_cast<std::size_t>(before.data()[i]) < place.size());
    numbers[static_cast<std::size_t>(x.data()[i])][static_cast<std::size_t>(before.data()[i])] = true;
  }
  for (const auto& place : numbers)
    CHECK(std::find(place.begin(), place.end(), false) == place.end());
}

TEST_CASE("loops and branches that differ between programs", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  const auto collatz = kernel("gpu_collatz", [](View<int, 1> steps) {
    auto [n, count] = while_loop(
        state(cast<std::int64_t>(program_id(0) + 1), Scalar<int>(0)), [](auto n, auto) { return n != 1; },
        [](auto n, auto count) {
          auto next = if_else(n % 2 == 0, [&] { return n / 2; }, [&] { return n * 3 + 1; });
          return state(next, count + 1);
        });
    raw::store(steps.data() + program_id(0), count);
  });
  auto steps = Tensor<int, 1>::zeros({1000});
  run_on(gpu.device(), [&](Stream& s, auto v) { collatz.launch(s, {}, Grid{1000}, v); }, steps.view());
  for (std::int64_t i = 0; i < 1000; ++i) {
    int expected = 0;
    for (std::int64_t n = i + 1; n != 1; ++expected)
      n = n % 2 ? 3 * n + 1 : n / 2;
    REQUIRE(steps.data()[i] == expected);
  }
}

TEST_CASE("a program's later loads see its stores, through any view", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  // `b` is `a` transposed: data is written in one layout and read in another.
  const auto turn = kernel("gpu_turn", [](View<float, 2> a, View<float, 2> b, View<float, 2> out) {
    auto m = offset(BM, 0), n = offset(BM, 0);
    for_range(1_c, 3, [&](auto) {
      a.tile(m, n).store(a.tile(m, n).load() * 2.0f);
      b.tile(m, n).store(b.tile(m, n).load() + 1.0f);
    });
    out.tile(m, n).store(b.tile(m, n).load());
  });
  for (std::int64_t size : {8, 37, 64}) {
    auto a = whole_numbers<float>(random, {size, size}), out = Tensor<float, 2>::zeros({size, size});
    std::vector<float> expected(a.begin(), a.end());
    for (float& x : expected)
      for (int i = 0; i < 3; ++i)
        x = 2 * x + 1;
    const Config config = {BM = size, num_warps = 4};
    run_on(
        gpu.device(), [&](Stream& s, auto... v) { turn.launch(s, config, Grid{1, 1, 1}, v...); }, a.view(),
        a.view().transpose(), out.view());
    CHECK(std::vector<float>(a.begin(), a.end()) == expected);
    for (std::int64_t r = 0; r < size; ++r)
      for (std::int64_t c = 0; c < size; ++c)
        REQUIRE(out.data()[r * size + c] == expected[static_cast<std::size_t>(c * size + r)]);
  }
}

TEST_CASE("whole-tensor expressions, captured and replayed", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  auto x = whole_numbers<float>(random, {70, 90});
  std::vector<float> expected(x.begin(), x.end());
  auto there = x.to(gpu.device());
  Stream stream(gpu.device());
  cuda::GraphCapture capture(stream);
  assign(stream, there, there.view() * 2.0f - 1.0f);
  assign(stream, there.view().slice(0, 1, 70), there.view().slice(0, 0, 69)); // through a temporary
  cuda::Graph graph = capture.end();
  for (int i = 0; i < 3; ++i) {
    graph.launch(stream);
    for (float& v : expected)
      v = 2 * v - 1;
    std::copy_backward(expected.begin(), expected.end() - 90, expected.end());
  }
  stream.synchronize();
  auto back = there.to(Device::cpu());
  CHECK(std::vector<float>(back.begin(), back.end()) == expected);
}

namespace {

// |found - expected| in units of T's last place at `expected`. Infinite if one of them is not finite and the
// other is different.
template <class T> double ulps(T found, long double expected) {
  const T nearest = static_cast<T>(expected);
  if (std::isnan(nearest) || std::isinf(nearest) || std::isnan(found) || std::isinf(found))
    return found == nearest || (std::isnan(found) && std::isnan(nearest)) ? 0 : INFINITY;
  const T magnitude = std::max(std::abs(nearest), std::numeric_limits<T>::min());
  const long double unit = static_cast<long double>(std::nextafter(magnitude, T(INFINITY))) - magnitude;
  return static_cast<double>(std::abs(static_cast<long double>(found) - expected) / unit);
}

template <class T> std::vector<T> telling_numbers(std::mt19937_64& random) {
  std::vector<T> x = {0,
                      T(-0.0),
                      1,
                      -1,
                      T(INFINITY),
                      T(-INFINITY),
                      T(NAN),
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max()};
  for (double scale : {1e-30, 1e-3, 1.0, 10.0, 90.0, 700.0, 1e5})
    for (int i = 0; i < 400; ++i)
      x.push_back(static_cast<T>(std::uniform_real_distribution<double>(-scale, scale)(random)));
  return x;
}

} // namespace

TEMPLATE_TEST_CASE("mathematical functions within the bounds of SEMANTICS", "[gpu]", float, double) {
  OnGpu gpu;
  if (!gpu) return;
  INFO("seed " << gpu.seed());
  std::mt19937_64 random(gpu.seed());
  using T = TestType;
  using Wide = long double;
  const std::vector<T> numbers = telling_numbers<T>(random);
  const auto n = static_cast<std::int64_t>(numbers.size());
  auto x = Tensor<T, 1>::empty({n}), y = Tensor<T, 1>::empty({n});
  std::copy(numbers.begin(), numbers.end(), x.begin());
  // A `bound` of 0 means correctly rounded.
  auto check = [&](const char* what, double bound, auto function, auto reference) {
    y.fill(T(-77));
    run_on(
        gpu.device(), [&](Stream& s, auto xv, auto yv) { assign(s, yv, function(xv)); }, x.view(), y.view());
    double worst = 0;
    T at = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const T expected = static_cast<T>(reference(static_cast<Wide>(x.data()[i])));
      const double error = bound == 0 ? ulps(y.data()[i], static_cast<Wide>(expected))
                                      : ulps(y.data()[i], reference(static_cast<Wide>(x.data()[i])));
      if (error > worst) worst = error, at = x.data()[i];
    }
    INFO(what << " is off by " << worst << " ulp at " << at);
    CHECK(worst <= bound);
  };
  const double bound = sizeof(T) == 4 ? 2 : 4;
#define CHECK_FUNCTION(NAME, BOUND)                                                                          \
  check(#NAME, BOUND, [](const auto& v) { return NAME(v); }, [](Wide v) { return std::NAME(v); });
  CHECK_FUNCTION(exp, bound)
  CHECK_FUNCTION(exp2, bound)
  CHECK_FUNCTION(expm1, bound)
  CHECK_FUNCTION(log, bound)
  CHECK_FUNCTION(log2, bound)
  CHECK_FUNCTION(log1p, bound)
  CHECK_FUNCTION(sin, bound)
  CHECK_FUNCTION(cos, bound)
  CHECK_FUNCTION(tan, bound)
  CHECK_FUNCTION(tanh, bound)
  CHECK_FUNCTION(erf, bound)
  CHECK_FUNCTION(floor, 0)
  CHECK_FUNCTION(ceil, 0)
  CHECK_FUNCTION(trunc, 0)
#undef CHECK_FUNCTION
  check("rsqrt", bound, [](const auto& v) { return rsqrt(v); }, [](Wide v) { return 1 / std::sqrt(v); });
  check(
      "sigmoid", bound, [](const auto& v) { return sigmoid(v); },
      [](Wide v) { return 1 / (1 + std::exp(-v)); });
  check("gelu", 8, [](const auto& v) { return gelu(v); }, [](Wide v) { return test::exact_gelu(v); });
  // References are computed in T, since a wider type would round twice.
  check("sqrt", 0, [](const auto& v) { return sqrt(v); }, [](Wide v) { return Wide(std::sqrt(T(v))); });
  check("division", 0, [](const auto& v) { return T(3) / v; }, [](Wide v) { return Wide(T(3) / T(v)); });
  check(
      "fma", 0, [](const auto& v) { return fma(v, v, T(1)); },
      [](Wide v) { return Wide(std::fma(T(v), T(v), T(1))); });
  check(
      "pow", 16, [](const auto& v) { return pow(abs(v), T(1.75)); },
      [](Wide v) { return std::pow(std::abs(v), Wide(1.75)); });
}

// --- Random kernels ----------------------------------------------------------------------------------------

namespace {

std::unique_ptr<ir::Kernel> passes_of(const RandomKernel& random, const std::vector<LayoutClass>& layouts) {
  return passes::lower_generic(*random.kernel, {random.config, layouts});
}

void compare(const OnGpu& gpu, std::uint64_t seed, std::int64_t warps,
             const RandomArgumentsOptions& options) {
  auto random = random_kernel(seed, {.exact = true});
  const RandomArguments start(random, seed, options);
  RandomArguments found = start, expected = start;
  std::vector<LayoutClass> layouts;
  for (const auto& arg : random.kernel->body.args)
    if (arg->type.is_view()) layouts.push_back(options.layout);
  CAPTURE(seed, warps, static_cast<int>(options.layout), options.overlap);
  INFO(ir::print(*random.kernel));
  Config config = random.config;
  config.set((num_warps = warps).name, warps);
  auto code = compile_kernel({*random.kernel, config_for(gpu.device(), config), layouts, gpu.device(), {}});

  Mirror mirror(gpu.device());
  const auto layout = ir::ArgumentLayout::of(*random.kernel);
  std::vector<std::uint64_t> words(found.words(), found.words() + layout.words);
  std::vector<std::size_t> pointers;
  for (std::size_t p = 0; p < random.kernel->body.args.size(); ++p) {
    const ir::Type& type = random.kernel->body.args[p]->type;
    if (!type.is_view()) continue;
    const auto word = static_cast<std::size_t>(layout.first_word[p]),
               rank = static_cast<std::size_t>(type.view_rank);
    std::int64_t low = 0, high = 1;
    bool empty = false;
    for (std::size_t a = 0; a < rank; ++a) {
      const auto extent = static_cast<std::int64_t>(words[word + 1 + a]);
      const auto stride = static_cast<std::int64_t>(words[word + 1 + rank + a]);
      empty |= extent == 0;
      (stride < 0 ? low : high) += (extent - 1) * stride;
    }
    if (empty) continue;
    auto* base = reinterpret_cast<char*>(words[word]);
    mirror.add_bytes(base + low * size_of(type.dtype), base + high * size_of(type.dtype));
    pointers.push_back(word);
  }
  mirror.to_device();
  for (std::size_t word : pointers)
    words[word] = reinterpret_cast<std::uint64_t>(mirror.translate(reinterpret_cast<char*>(words[word])));
  std::vector<std::int64_t> grid;
  std::int64_t programs = 1;
  for (const auto& axis : code->grid) {
    const auto extent = static_cast<std::int64_t>(words[static_cast<std::size_t>(axis.extent_word)]);
    grid.push_back((extent + axis.tile - 1) / axis.tile);
    programs *= grid.back();
  }
  if (options.overlap && programs > 1) return; // the result would depend on the order of programs
  if (programs > 0)
    cuda::launch(mirror.stream(), *code->cuda, words.data(), grid, SourceLocation("random", 1));
  mirror.stream().synchronize();
  mirror.to_host();
  auto lowered = passes_of(random, layouts);
  ir::interpret(*lowered, expected.words(), grid);
  REQUIRE(found.difference(expected) == "");
}

} // namespace

TEST_CASE("random kernels compute to the same bits as in the interpreter", "[gpu]") {
  OnGpu gpu;
  if (!gpu) return;
  std::uint64_t count = gpu.is_fake() ? 3 : 100;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = gpu.seed(); seed < gpu.seed() + count; ++seed)
    for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Aligned})
      for (bool overlap : {false, true})
        compare(gpu, seed, std::int64_t{1} << seed % 4, {.layout = layout, .overlap = overlap});
}
