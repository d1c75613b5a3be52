// Tests the code of dsl/FROM_TRITON.md: records each Kiln expression of its tables, runs each kernel that it
// shows, and compares what it proposes for missing functions with plain C++. The last test checks that the
// page shows no code that this file does not contain.
#include "test_seed.h"

#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace kiln;

// --- The kernels that the page shows -----------------------------------------------------------------------

KILN_DIM(BLOCK);

const auto softmax = kernel("softmax", [](View<const float, 2> x, View<float, 2> y) {
  expects(x.cols() <= dim_size(BLOCK), "x's columns and the size of BLOCK"); // checked at each launch
  auto [row] = program_tile(x, 1_c);             // the grid: one program for each row
  auto cols = offset(BLOCK, 0);                  // each program takes all columns
  Tile t = x.tile(row, cols).load_or(-INFINITY); // outside of x reads as -infinity
  Tile e = exp(t - max(t, BLOCK));               // max removes BLOCK; its result broadcasts
  y.tile(row, cols).store(e / sum(e, BLOCK));    // outside of y is not written
});

Tensor<float, 2> softmax_of(Stream& stream, const Tensor<float, 2>& x) {
  auto y = Tensor<float, 2>::empty(stream.device(), {x.extent(0), x.extent(1)});
  const auto block = std::bit_ceil(static_cast<std::uint64_t>(x.extent(1)));
  softmax.launch(stream, {BLOCK = block, num_warps = 4}, x, y); // a CPU ignores num_warps
  stream.synchronize();
  return y;
}

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

const auto matmul = kernel("matmul", [](View<const bf16, 2> a, View<const bf16, 2> b, View<bf16, 2> c) {
  expects(a.cols() == b.rows(), "a's columns and b's rows");
  auto [m, n] = program_tile(c, BM, BN); // the grid: one program for each tile of c
  auto acc = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
    return dot(a.tile(m, k).load(), b.tile(k, n).load(), acc); // outside of a and b reads as zero
  });
  c.tile(m, n).store(cast<bf16>(acc)); // outside of c is not written
});

void product(Stream& stream, const Tensor<bf16, 2>& a, const Tensor<bf16, 2>& b, Tensor<bf16, 2>& c) {
  matmul.launch(stream, {BM = 64, BN = 64, BK = 32, num_warps = 4}, a, b, c);
}

const auto tuned_matmul = tuned(matmul,
                                tune::Space()
                                    .pow2(BM, 16, 128)
                                    .pow2(BN, 16, 128)
                                    .oneof(BK, {32, 64})
                                    .require("a tile of c has at least 512 elements",
                                             [](const tune::Choice& c) { return c[BM] * c[BN] >= 512; })
                                    .seed({{"BM", 64}, {"BN", 64}, {"BK", 32}}),
                                {.key = {{"M", 0, 0}, {"N", 1, 1}, {"K", 0, 1}}});

// The replacement of tl.swizzle2d.

// The program of a row-major grid at (i, j) takes the place that this returns.
template <class I> auto swizzle2d(I i, I j, I size_i, I size_j, int size_g) {
  Tile ij = i * size_j + j;
  Tile first = ij / (size_j * size_g) * size_g; // row of the group
  Tile rows = min(size_i - first, size_g);      // the last group may have fewer
  return state(first + ij % (size_j * size_g) % rows, ij % (size_j * size_g) / rows);
}

namespace {

// --- One expression each: recorded, not run ----------------------------------------------------------------

template <class... X> void ignore(const X&...) {}

const Config sizes = {BM = 16, BN = 32, BK = 64};

template <class F> void record(const char* name, const F& function) { kernel(name, function).record(sizes); }

void record_programs_and_creation() {
  record("programs", [](View<const float, 2> v, View<float, 2> c, View<float, 2, LayoutClass::Aligned> fast,
                        raw::Ptr<float> p, raw::Ptr<const float> q, Scalar<float> alpha) {
    auto [m, n] = program_tile(c, BM, BN);
    ignore(program_id(0), num_programs(0), cdiv(v.rows(), BM), m + arange(BM), dim_size(BM), value(BM));
    ignore(v.rows(), v.cols(), v.extent(0), v.stride(0), fast, p, q, alpha);
  });
  record("creation", [](View<const float, 2> v) {
    auto [m, n] = program_tile(v, BM, BN);
    Tile x = v.tile(m, n).load();
    Tile<float, BM, BN> same = x;
    Tile a = arange(BN), b = arange(BN, 8);
    ignore(same, full(2.5f, BM, BN), full<bf16>(1, BM, BN), zeros<float>(BM, BN), ones<float>(BM, BN));
    ignore(reshape(trans(join(a, b)), BN * 2_c), cast<f16>(x), bitcast<std::int32_t>(x), cast<bf16>(x));
    ignore(cast<f8e4m3>(x), cast<f8e5m2>(x), cast<double>(x), cast<bool>(x), cast<std::int8_t>(x));
    ignore(cast<std::uint8_t>(x), cast<std::int64_t>(x), cast<std::uint64_t>(x), cast<float>(x));
  });
}

void record_shapes_and_products() {
  record("shapes", [](View<const float, 2> v, View<const float, 1> line) {
    auto [m, n] = program_tile(v, BM, BN);
    Tile x = v.tile(m, n).load(), y = v.tile(m, n + 1).load();
    Tile row = line.tile(n).load();
    ignore(x + row, broadcast(row, BM, BN), expand<1>(row), squeeze<0>(expand<0>(row)), expand<0>(row));
    ignore(reshape(x, BM * BN), flatten(x), trans(x), permute<1, 0>(x), join(x, y), interleave(x, y));
    auto [lo, hi] = split(join(x, y));
    ignore(lo, hi);
  });
  record("products", [](View<const float, 2> a_, View<const float, 2> b_, View<float, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    Tile a = a_.tile(m, offset(BK, 0)).load();
    Tile b = b_.tile(offset(BK, 0), n).load();
    Tile acc = zeros<float>(BM, BN);
    ignore(dot(a, b), dot(a, b, acc), dot(a, b, acc, Precision::tf32), dot(a, b, Precision::tf32));
  });
}

void record_memory() {
  record("memory", [](View<const float, 2> u, View<float, 2> v, raw::Ptr<float> p) {
    auto [m, n] = program_tile(v, BM, BN);
    Tile rows = m + arange(BM);
    Tile cols = n + arange(BN);
    Tile i = expand<1>(rows) * 100 + cols;
    Tile mask = i < 1000;
    Tile x = u.tile(m, n).load();
    ignore(u.tile(m, n).load_or(-INFINITY), u.tile(m, n).load(mask, 0.0f), u.tile(m, n).load(mask));
    ignore(raw::load(p + i, mask, 0.0f), raw::load(p + i, mask, 0.0f, raw::Cache::outer), raw::load(p + i));
    v.tile(m, n).store(x);
    v.tile(m, n).store(x, mask);
    raw::store(p + i, x, mask);
    ignore(u.at(expand<1>(rows), cols).load(), u.tile(m, n + 64).load(), v.tile(m, n).ptrs());
    v.at(expand<1>(rows), cols).store(x);
    ignore(v.tile(m, n).mask());
    ignore(u.slice(1, 0, 3), raw::view(p, {3, 4}), raw::load_as<std::uint32_t>(p));
  });
  record("addresses",
         [](View<const std::uint64_t, 1> table, View<const std::uint8_t, 1> bytes, View<float, 2> v) {
           auto [i, j] = program_tile(v, each, BN);
           ignore(raw::pointer<float>(table.at(0).load()), load_as<std::uint32_t>(bytes.at(0)));
           Tile<float, BM, 64> x = zeros<float>(BM, constant<64>);
           ignore(i, j, x);
         });
  record("atomics", [](View<float, 2> v, View<std::int32_t, 1> flags, raw::Ptr<float> p) {
    auto [m, n] = program_tile(v, BM, BN);
    Tile cols = n + arange(BN);
    Tile mask = cols < 7;
    Tile x = full(1.0f, BM, BN);
    Tile j = full(1, BN);
    v.tile(m, n).atomic_add(x);
    v.tile(m, n).atomic_add(x, mask, {.order = Order::relaxed, .scope = Scope::sys});
    v.tile(m, n).atomic_min(x);
    v.tile(m, n).atomic_max(x);
    raw::atomic_add(p + cols, 1.0f, mask);
    flags.at(cols).atomic_and(j);
    flags.at(cols).atomic_or(j);
    flags.at(cols).atomic_xor(j);
    ignore(flags.at(cols).atomic_exchange(j), flags.at(cols).atomic_compare_exchange(0, 1));
    ignore(flags.at(cols).atomic_or(0));
  });
}

void record_functions() {
  record("functions", [](View<const float, 2> u) {
    auto [m, n] = program_tile(u, BM, BN);
    Tile x = u.tile(m, n).load(), y = u.tile(m, n + 1).load(), z = x;
    Tile i = cast<std::int32_t>(x);
    Tile j = cast<std::int32_t>(y);
    ignore(abs(x), ceil(x), floor(x), cos(x), sin(x), exp(x), exp2(x), log(x), log2(x), sqrt(x), rsqrt(x));
    ignore(erf(x), sigmoid(x), fma(x, y, z), x / y, mul_hi(i, j), clamp(x, 0, 1), minimum(x, y), i / j,
           i % j);
    ignore(maximum(x, y), min(x, y), max(x, y), where(x > 0, x, y), x + y, x - y, x * y, cdiv(i, j));
    ignore(where(isnan(x) | isnan(y), x + y, max(x, y)), cast<float>(i) / cast<float>(j));
    ignore(tan(x), tanh(x), expm1(x), log1p(x), pow(x, y), atan2(x, y), trunc(x), round(x), isnan(x));
    ignore(isinf(x), isfinite(x), popcount(i), relu(x), silu(x), gelu(x), (x > 0) & (y > 0), ~(x > 0));
    ignore(rand(42, i), randn(42, i), rand_bits(42, i));
    auto [r0, r1, r2, r3] = philox(42, i);
    ignore(r0, r1, r2, r3);
  });
  record("reductions", [](View<const float, 2> u) {
    auto [m, n] = program_tile(u, BM, BN);
    Tile x = u.tile(m, n).load();
    Tile i = cast<std::int32_t>(x);
    ignore(sum(x, BN), sum(x, axis<1>), sum(x, BN, keep), sum(x), max(x, BN), min(x, BN), prod(x, BN));
    ignore(argmax(x, BN), argmin(x, BN), xor_sum(i, BN), any(x > 0, BN), all(x > 0, BN));
    ignore(reduce(x, BN, [](auto a, auto b) { return a * b; }));
    ignore(reduce(i, BN, [](auto a, auto b) { return a | b; }));
    ignore(max(x, axis<0>), max(x, 0), sum(cast<float>(x), BN), sum(cast<std::int32_t>(i), BN));
    Tile index = broadcast(arange(BN), BM, BN);
    auto [best, place] = reduce(tie(x, index), BN, [](auto a, auto b) {
      auto [x, i] = a;
      auto [y, j] = b;
      auto first = (x > y) | ((x == y) & (i < j));
      return state(where(first, x, y), where(first, i, j));
    });
    ignore(best, place, cumsum(x, BN), cumprod(x, BN), cumsum(x, BN, {.reverse = true}));
    ignore(associative_scan(x, BN, [](auto a, auto b) { return a + b; }));
    Tile y = x + 1;
    ignore(sort(x, BN), sort(x, BN, {.descending = true}), argsort(x, BN), gather(x, i, BN), flip(x, BN));
    auto [keys, values] = sort(tie(x, y), BN);
    auto [top, places] = topk(x, 4_c, BN);
    ignore(keys, values, top, places, cat(x, y, BN), histogram(i, BK), histogram(i, 16_c, x > 0));
    ignore(narrow(x, 4, 8_c, BN), take(x, 2, BM), element(x, 2, 5));
  });
}

void record_control_flow() {
  record("control flow", [](View<const float, 2> u, Scalar<std::int64_t> n, Scalar<bool> flag) {
    auto [m, c] = program_tile(u, BM, BN);
    Tile x = u.tile(m, c).load();
    auto f = [&](auto k) { return u.tile(m, k).load(); };
    Tile acc = for_range(BN, u.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) { return acc + f(k); });
    acc = for_range(0, n, 1, acc, [&](auto i, auto acc) { return acc + cast<float>(i); });
    acc = for_range(0, n, 1, acc, [&](auto i, auto acc) { return acc + cast<float>(i); }, {.stages = 4});
    for (int j = 0; j < 4; ++j)
      acc = acc * x;
    acc = if_else(flag, [&] { return acc + 1; }, [&] { return acc * 2; });
    if_then(n > 0, [&] { device_print("n =", n); });
    auto [first, second] =
        for_range(0, n, 1, state(acc, acc), [](auto, auto a, auto b) { return state(b, a); });
    ignore(first, second);
    Scalar<std::int64_t> steps = while_loop(n, [](auto n) { return n > 1; }, [](auto n) { return n / 2; });
    Var<float> best = 0;
    for_range(0, steps, 1, [&](auto i) { best = max(best, cast<float>(i)); });
    for_range(BN, range(n, u.cols()), [&](auto k) { best = max(best, max(f(k))); });
    device_assert(x >= 0, "x is not negative", x < 100);
    std::printf("BM is %lld while this kernel is recorded\n", static_cast<long long>(value(BM)));
    if (value(BN) % 16 != 0) throw std::invalid_argument("BN must be a multiple of 16");
    static_assert(decltype(acc)::rank == 2);
    expects(n > 0, "n");
  });
}

// These calls are compiled but not run, because they need a GPU or much time, or would change the process.
[[maybe_unused]] void call_from_the_host(Device device, void* cuda_stream, const Tensor<bf16, 2>& a,
                                         const Tensor<bf16, 2>& b, Tensor<bf16, 2>& d) {
  const tune::Space space;
  const tune::TunedOptions options;
  ignore(tuned(matmul, space, options));
  Stream stream(device);
  Stream adopted = Stream::adopt(device, cuda_stream);
  cuda::GraphCapture capture(stream);
  ignore(tuned_matmul.tune(stream, {.effort = tune::quick}, a, b, d), tuned_matmul.pick(stream, a, b, d));
  tune::export_wisdom("kernels.json");
  set_compile_policy(CompilePolicy::forbid);
  try {
    softmax.precompile("sm_90a", {BLOCK = 8});
  } catch (const UserError&) {
  } catch (const TargetError&) {
  } catch (const InternalError&) {
  }
  ignore(Config{BLOCK = 8, num_warps = 4, max_registers = 128},
         Config{BLOCK = 8, num_stages = 4, num_ctas = 1});
  ignore(Device::emulated("sm_90a"));
}

// --- What the page proposes instead of functions that Kiln lacks -------------------------------------------

std::vector<float> random_floats(std::mt19937_64& random, std::size_t n) {
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::vector<float> values(n);
  for (float& v : values)
    v = numbers(random);
  return values;
}
} // namespace

TEST_CASE("the expressions of the page for readers who know Triton are recorded") {
  record_programs_and_creation();
  record_shapes_and_products();
  record_memory();
  record_functions();
  record_control_flow();
}

TEST_CASE("the softmax of the page for readers who know Triton") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const std::int64_t rows = 1 + std::int64_t(random() % 20), cols = 1 + std::int64_t(random() % 300);
  auto x = Tensor<float, 2>::empty({rows, cols});
  std::ranges::copy(random_floats(random, std::size_t(rows * cols)), x.begin());
  Stream stream;
  auto y = softmax_of(stream, x);
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      total += std::exp(double{x.view()(r, c)});
    for (std::int64_t c = 0; c < cols; ++c)
      REQUIRE(y.view()(r, c) == Approx(std::exp(double{x.view()(r, c)}) / total).epsilon(1e-5));
  }
}

TEST_CASE("the matmul of the page for readers who know Triton, with a config and tuned") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const std::int64_t m = 1 + std::int64_t(random() % 90), n = 1 + std::int64_t(random() % 90),
                     k = 1 + std::int64_t(random() % 90);
  auto a = Tensor<bf16, 2>::empty({m, k}), b = Tensor<bf16, 2>::empty({k, n});
  for (bf16& v : a)
    v = bf16(random_floats(random, 1)[0]);
  for (bf16& v : b)
    v = bf16(random_floats(random, 1)[0]);
  auto c = Tensor<bf16, 2>::zeros({m, n}), d = Tensor<bf16, 2>::zeros({m, n});
  Stream stream;
  product(stream, a, b, c);
  tuned_matmul.launch(stream, a, b, d);
  stream.synchronize();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;
      for (std::int64_t l = 0; l < k; ++l)
        total += double(a.view()(i, l)) * double(b.view()(l, j));
      REQUIRE(double(c.view()(i, j)) == Approx(total).epsilon(0.005).margin(0.01));
      REQUIRE(double(d.view()(i, j)) == Approx(total).epsilon(0.005).margin(0.01));
    }
}

TEST_CASE("the softmax of the page gives what frameworks do for -infinity, infinity and NaN") {
  const std::vector<std::vector<float>> rows{{-INFINITY, -INFINITY, 1, 1},
                                             {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                             {0, NAN, 0, 0},
                                             {INFINITY, 0, 0, 0}};
  auto x = Tensor<float, 2>::empty({4, 4});
  for (std::size_t i = 0; i < 16; ++i)
    x.data()[i] = rows[i / 4][i % 4];
  Stream stream;
  auto y = softmax_of(stream, x);
  REQUIRE(std::vector(y.data(), y.data() + 4) == std::vector<float>{0, 0, 0.5f, 0.5f});
  for (std::size_t i = 4; i < 16; ++i)
    REQUIRE(std::isnan(y.data()[i]));
}

TEST_CASE("programs in groups of rows, as tl.swizzle2d numbers them") {
  const auto order = kernel("order", [](View<int, 2> out) {
    auto [i, j] = swizzle2d(program_id(0), program_id(1), out.rows(), out.cols(), 2);
    out.at(i, j).store(cast<int>(program_id(0) * out.cols() + program_id(1)));
  });
  std::vector<int> out(16), ragged(15);
  Stream stream;
  order.launch(stream, {}, Grid{4, 4}, TensorView(out, {4, 4}));
  order.launch(stream, {}, Grid{5, 3}, TensorView(ragged, {5, 3}));
  stream.synchronize();
  REQUIRE(out == std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15});
  REQUIRE(ragged == std::vector<int>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11, 12, 13, 14});
}

TEST_CASE("a kernel without program_tile is launched with a grid") {
  const auto largest = kernel(
      "largest", [](View<const float, 1> in, View<const int, 1> at, View<float, 1> out, View<int, 1> counts) {
        auto [top, places] = topk(in.tile(offset(BN, 0)).load_or(-INFINITY), 4_c, BN);
        out.tile(offset(4_c, 0)).store(top + cast<float>(places) * 100);
        Tile i = at.tile(offset(BN, 0)).load_or(-1);
        counts.at(i).atomic_add(1);
      });
  const std::vector<float> in{1, 7, NAN, 3, 5};
  const std::vector<int> at{1, 1, 0, 3, 1, 1, 1, 0};
  std::vector<float> out(4);
  std::vector<int> counts(4);
  Stream stream;
  largest.launch(stream, {BN = 32}, Grid{1}, TensorView(in), TensorView(at), TensorView(out),
                 TensorView(counts));
  stream.synchronize();
  REQUIRE(std::isnan(out[0]));
  REQUIRE(std::vector(out.begin() + 1, out.end()) == std::vector<float>{107, 405, 303});
  REQUIRE(counts == std::vector<int>{2, 5, 0, 1});
}

TEST_CASE("an operand is scaled in groups of 32 before a dot") {
  const auto scaled =
      kernel("scaled", [](View<const float, 2> in, View<const float, 2> scales, View<float, 2> out) {
        auto [m, k] = program_tile(out, BM, BK);
        Tile a = in.tile(m, k).load();
        Tile s = scales.tile(m, offset(BK / 32_c, 0)).load();
        out.tile(m, k).store(reshape(reshape(a, BM, BK / 32_c, 32_c) * expand<2>(s), BM, BK));
      });
  std::vector<float> in(4 * 64, 1.0f), scales(4 * 2), out(4 * 64);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = float(i);
  Stream stream;
  scaled.launch(stream, {BM = 4, BK = 64}, TensorView(in, {4, 64}), TensorView(scales, {4, 2}),
                TensorView(out, {4, 64}));
  stream.synchronize();
  for (std::size_t i = 0; i < out.size(); ++i)
    REQUIRE(out[i] == scales[i / 32]);
}

TEST_CASE("rand_bits gives the bits of tl.randint") {
  const auto bits = kernel("bits", [](View<std::uint32_t, 1> out, Scalar<std::int32_t> seed) {
    auto [n] = program_tile(out, BN);
    out.tile(n).store(rand_bits(seed, n + arange(BN)));
  });
  std::vector<std::uint32_t> out(3);
  Stream stream;
  bits.launch(stream, {BN = 16}, TensorView(out), 42);
  stream.synchronize();
  REQUIRE(out == std::vector<std::uint32_t>{2632642643, 4242219303, 3547071013}); // of Triton 3.9
}

TEST_CASE("the calls of the host that the page names") {
  Stream stream;
  auto x = Tensor<float, 2>::zeros({3, 5}), y = Tensor<float, 2>::zeros({3, 5});
  softmax.warm_up(Device::cpu(), {BLOCK = 8});
  softmax.interpret({BLOCK = 8}, x, y);
  REQUIRE(y.data()[0] == Approx(0.2));
  Event begin, end;
  begin.record(stream);
  softmax.launch(stream, {BLOCK = 8}, x, y);
  end.record(stream);
  end.synchronize();
  REQUIRE(end.elapsed_ms(begin) >= 0);
  float* pointer = x.data();
  softmax.launch(stream, {BLOCK = 8}, TensorView(pointer, {3, 5}, {5, 1}), y);
  stream.synchronize();
  const tune::Picked picked = tuned_matmul.pick(
      stream, Tensor<bf16, 2>::zeros({4, 4}), Tensor<bf16, 2>::zeros({4, 4}), Tensor<bf16, 2>::zeros({4, 4}));
  REQUIRE(picked.config.get("BM").has_value());
}

// --- The page against this file ----------------------------------------------------------------------------

namespace {
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  return text;
}

// The cells of a row of a table. `\|` in a cell stands for `|`.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '|' && (i == 0 || line[i - 1] != '\\'))
      cells.emplace_back();
    else if (!cells.empty() && !(line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|'))
      cells.back() += line[i];
  return cells;
}

// The pieces of text between backticks.
std::vector<std::string> code_in(const std::string& text) {
  std::vector<std::string> code;
  std::stringstream parts(text);
  std::string part;
  for (bool inside = false; std::getline(parts, part, '`'); inside = !inside)
    if (inside) code.push_back(part);
  return code;
}
} // namespace

TEST_CASE("the page for readers who know Triton shows no code that does not compile") {
  const std::string tests = KILN_TESTS_DIR, root = tests + "/..";
  std::string known = without_spaces(text_of(tests + "/dsl/test_from_triton.cpp"));
  for (const char* switches :
       {"/jit/base/options.h", "/jit/base/options.cpp", "/autotune/mode.h", "/autotune/mode.cpp"})
    known += without_spaces(text_of(root + switches));

  std::stringstream page(text_of(root + "/dsl/FROM_TRITON.md"));
  std::string line, block;
  int blocks = 0, spans = 0;
  bool in_cpp = false, in_other = false, in_functions = false;
  while (std::getline(page, line)) {
    if (line.starts_with("```")) {
      if (in_cpp) {
        INFO(block);
        REQUIRE(known.find(without_spaces(block)) != std::string::npos);
        ++blocks;
      }
      in_other = !in_cpp && !in_other && line != "```cpp";
      in_cpp = !in_cpp && line == "```cpp";
      block.clear();
      continue;
    }
    if (in_cpp) block += line + '\n';
    if (line == "## The functions of triton.language") in_functions = true;
    if (in_cpp || in_other || !in_functions) continue;
    // In a table the first column is Triton's and the second Kiln's; elsewhere calls are Kiln's.
    const auto cells = cells_of(line);
    auto check = [&](const std::string& text, bool calls_only) {
      for (std::string code : code_in(text)) {
        if (code.starts_with("KILN_") && code.find('(') == std::string::npos)
          code = code.substr(0, code.find('=')); // an environment variable
        if (calls_only && code.find('(') == std::string::npos) continue;
        INFO(line << "\n" << code);
        CHECK(known.find(without_spaces(code)) != std::string::npos);
        ++spans;
      }
    };
    if (cells.size() < 3) {
      check(line, true);
    } else {
      check(cells[1], false);
      check(cells[2], true);
    }
  }
  REQUIRE(blocks == 4);
  REQUIRE(spans > 150);
}
