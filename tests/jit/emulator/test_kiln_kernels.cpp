// Tests Kiln kernels, as PTX on the emulated GPU, against references in double precision.
#include "kiln_kernel.h"
#include "test_seed.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/record.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

// Launch words of contiguous tensors, and their memory.
class Arguments {
public:
  template <class T> Arguments& add(std::vector<T>& v, std::initializer_list<std::int64_t> extents) {
    words_.push_back(reinterpret_cast<std::uint64_t>(v.data()));
    std::int64_t stride = 1;
    std::vector<std::uint64_t> strides;
    for (auto e = std::rbegin(extents); e != std::rend(extents); ++e) {
      strides.insert(strides.begin(), static_cast<std::uint64_t>(stride));
      stride *= *e;
    }
    for (std::int64_t e : extents)
      words_.push_back(static_cast<std::uint64_t>(e));
    words_.insert(words_.end(), strides.begin(), strides.end());
    memories_.push_back(std::as_writable_bytes(std::span(v)));
    return *this;
  }
  void run(const ir::Kernel& recorded, const Config& config, int warps, std::uint64_t seed) {
    auto lowered = passes::lower_generic(
        recorded, {config, std::vector<LayoutClass>(memories_.size(), LayoutClass::Unit)});
    for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
      test::EmulatedKernel kernel(*lowered, arch, warps);
      auto report = kernel.run(words_.data(), memories_, ir::grid_of(*lowered, words_.data()),
                               {.seed = seed, .checks = emulator::Checks::all()}, false);
      CAPTURE(arch, seed);
      INFO(report.text());
      REQUIRE(report.ok());
      CHECK(report.lane_instructions > 0);
    }
  }

private:
  std::vector<std::uint64_t> words_;
  std::vector<std::span<std::byte>> memories_;
};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<float> random_floats(std::mt19937_64& random, std::int64_t n) {
  std::vector<float> v(at(n));
  for (float& x : v)
    x = static_cast<float>(static_cast<double>(random() % 20001) / 2500 - 4);
  return v;
}

} // namespace

TEST_CASE("emulated: a vector add of any length", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto n = static_cast<std::int64_t>(random() % 3000 + 1);
  auto a = random_floats(random, n), b = random_floats(random, n), c = std::vector<float>(at(n), -1);
  auto add = record("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> z) {
    auto [i] = program_tile(z, BN);
    z.tile(i).store(x.tile(i).load() + y.tile(i).load());
  });
  Arguments().add(a, {n}).add(b, {n}).add(c, {n}).run(*add, {BN = 512}, 4, seed);
  for (std::size_t i = 0; i < c.size(); ++i)
    REQUIRE(c[i] == a[i] + b[i]);
}

TEST_CASE("emulated: a softmax of rows", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::int64_t m = 5, n = static_cast<std::int64_t>(random() % 700 + 1);
  auto x = random_floats(random, m * n), y = std::vector<float>(at(m * n), -1);
  auto softmax = record("softmax", [](View<const float, 2> from, View<float, 2> to) {
    auto [row] = program_tile(from, 1_c);
    Tile t = from.tile(row, offset(BN, 0)).load_or(-INFINITY);
    Tile e = exp(t - max(t, BN, keep));
    to.tile(row, offset(BN, 0)).store(e / sum(e, BN, keep));
  });
  Arguments().add(x, {m, n}).add(y, {m, n}).run(*softmax, {BN = 1024}, 4, seed);
  for (std::int64_t r = 0; r < m; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < n; ++c)
      sum += std::exp(static_cast<double>(x[at(r * n + c)]));
    for (std::int64_t c = 0; c < n; ++c) {
      CAPTURE(r, c);
      const double expected = std::exp(static_cast<double>(x[at(r * n + c)])) / sum;
      REQUIRE(std::fabs(y[at(r * n + c)] - expected) <= 2e-6 * expected + 1e-12);
    }
  }
}

TEST_CASE("emulated: products in f32, and on tensor cores in f16 and bf16", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto m = static_cast<std::int64_t>(random() % 80 + 1),
             n = static_cast<std::int64_t>(random() % 80 + 1),
             k = static_cast<std::int64_t>(random() % 80 + 1);
  auto body = [](auto a, auto b, View<float, 2> c) {
    auto [row, col] = program_tile(c, BM, BN);
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto i, auto part) {
      return part + dot(a.tile(row, i).load(), b.tile(i, col).load());
    });
    c.tile(row, col).store(sum);
  };
  const Config config = {BM = 32, BN = 32, BK = 32};
  auto check = [&](auto a, auto b, auto value, const ir::Kernel& recorded, double tolerance) {
    std::vector<float> c(at(m * n), -1);
    Arguments().add(a, {m, k}).add(b, {k, n}).add(c, {m, n}).run(recorded, config, 4, seed);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += value(a[at(i * k + l)]) * value(b[at(l * n + j)]);
          size += std::fabs(value(a[at(i * k + l)]) * value(b[at(l * n + j)]));
        }
        CAPTURE(m, n, k, i, j);
        REQUIRE(std::fabs(c[at(i * n + j)] - sum) <= tolerance * size + 1e-12);
      }
  };
  auto fa = random_floats(random, m * k), fb = random_floats(random, k * n);
  check(
      fa, fb, [](float v) { return static_cast<double>(v); },
      *record("product",
              [&](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) { body(a, b, c); }),
      1e-5);
  auto narrow = [](const std::vector<float>& v, DType t) {
    std::vector<std::uint16_t> r;
    for (float x : v)
      r.push_back(static_cast<std::uint16_t>(encode_float(t, x)));
    return r;
  };
  check(
      narrow(fa, DType::F16), narrow(fb, DType::F16),
      [](std::uint16_t v) { return decode_float(DType::F16, v); },
      *record("product",
              [&](View<const f16, 2> a, View<const f16, 2> b, View<float, 2> c) { body(a, b, c); }),
      1e-5);
  check(
      narrow(fa, DType::BF16), narrow(fb, DType::BF16),
      [](std::uint16_t v) { return decode_float(DType::BF16, v); },
      *record("product",
              [&](View<const bf16, 2> a, View<const bf16, 2> b, View<float, 2> c) { body(a, b, c); }),
      1e-5);
}

TEST_CASE("emulated: scans, and a histogram by atomics", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::int64_t m = static_cast<std::int64_t>(random() % 6 + 1),
                     n = static_cast<std::int64_t>(random() % 200 + 1);
  std::vector<std::int32_t> x(at(m * n)), rows(at(m * n)), bins(8), expected(8);
  for (auto& v : x) {
    v = static_cast<std::int32_t>(random() % 8);
    expected[at(v)] += 3; // once for each architecture
  }
  auto scan = record("scan", [](View<const std::int32_t, 2> from, View<std::int32_t, 2> to) {
    auto [r] = program_tile(from, 1_c);
    to.tile(r, offset(BN, 0)).store(cumsum(from.tile(r, offset(BN, 0)).load(), BN));
  });
  Arguments().add(x, {m, n}).add(rows, {m, n}).run(*scan, {BN = 256}, 4, seed);
  for (std::int64_t r = 0; r < m; ++r) {
    std::int32_t sum = 0;
    for (std::int64_t c = 0; c < n; ++c)
      REQUIRE(rows[at(r * n + c)] == (sum += x[at(r * n + c)]));
  }
  auto histogram = record("histogram", [](View<const std::int32_t, 1> from, View<std::int32_t, 1> to) {
    auto [i] = program_tile(from, BN);
    auto bin = from.tile(i).load_or(-1); // outside of the tensor: no bin
    to.at(bin).atomic_add(1, {.order = Order::relaxed});
  });
  Arguments().add(x, {m * n}).add(bins, {8}).run(*histogram, {BN = 64}, 2, seed);
  CHECK(bins == expected);
}

TEST_CASE("emulated: device_print and device_assert, with the kernel's own line", "[emulator]") {
  int assert_line = 0;
  auto recorded = record("checked", [&](View<const float, 1> from) {
    auto [i] = program_tile(from, BN);
    Tile t = from.tile(i).load();
    device_print("t", t);
    device_assert(t < 3.f, "small"), assert_line = __LINE__;
  });
  auto lowered = passes::lower_generic(*recorded, {{BN = 64}, {LayoutClass::Unit}});
  std::vector<float> x(64, 1);
  const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(x.data()), 64, 1};
  const std::span<std::byte> memory[] = {std::as_writable_bytes(std::span(x))};
  test::EmulatedKernel kernel(*lowered, "sm_80", 4, /*debug=*/true);
  auto report = kernel.run(words, memory, {1}, {}, false);
  INFO(report.text());
  CHECK(report.ok());
  CHECK(std::count(report.printed.begin(), report.printed.end(), '\n') == 64);
  x[17] = 5;
  report = kernel.run(words, memory, {1}, {}, false);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].fault == emulator::Fault::Assertion);
  const std::string& message = report.findings[0].message;
  CHECK(message.find("test_kiln_kernels.cpp:" + std::to_string(assert_line) +
                     "): assertion: 'small' failed at ") != std::string::npos);
  CHECK(message.find("call") == std::string::npos); // the opcode would not help
}

TEST_CASE("emulated: a tile of no power of two takes another shape", "[emulator]") {
  // Many threads store its padding to the same address.
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto a = random_floats(random, 12 * 34), b = std::vector<float>(12 * 34, -1);
  auto reshaped = record("reshaped", [](View<const float, 2> from, View<float, 2> to) {
    auto [i, j] = program_tile(from, 12_c, 34_c);
    to.tile(offset(8_c, 0), offset(51_c, 0)).store(reshape(from.tile(i, j).load(), 8_c, 51_c));
  });
  Arguments().add(a, {12, 34}).add(b, {8, 51}).run(*reshaped, {}, 4, seed);
  CHECK(a == b);
}
