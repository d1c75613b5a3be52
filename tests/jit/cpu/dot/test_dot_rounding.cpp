// Tests the rounded sums that the routines of dot store against exact sums.
#include "dot_harness.h"
#include "dsl/guarded_memory.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace kiln;
using cpu::DotShape;
using cpu::DotStrides;
using test::CompiledDot;
using test::GuardedMemory;

namespace {

using Random = std::mt19937_64;

struct Extents {
  std::int64_t m, n, k;
};

std::int64_t up_to(std::int64_t limit, Random& random) {
  return std::uniform_int_distribution<std::int64_t>(1, limit)(random);
}

} // namespace

TEST_CASE("AMX stores sums rounded to bf16 on request, and writes nothing else") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  const DotShape shape{DType::BF16,           DType::BF16,           150, 200, 9000,
                       DotStrides::UnitInner, DotStrides::UnitInner, true};
  const CompiledDot dot(
      shape, "host", [](cpu::DotTarget& target) { target.amx_bf16 = target.bf16_dot; }, test::Amx::Emulated);
  if (!dot.target.amx_bf16) {
    WARN("skipped: this CPU has no dot products of bf16");
    return;
  }
  REQUIRE(cpu::dot_stores_rounded(shape, dot.target));
  // Multiples of 1/8, whose sums are exact in f32.
  auto eighth = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 8; };
  auto check = [&](Extents e, bool accumulate, bool rounds) {
    CAPTURE(e.m, e.n, e.k, accumulate, rounds);
    const auto size = [](std::int64_t x, std::int64_t y) { return static_cast<std::size_t>(x * y); };
    std::vector<bf16> a(size(e.m, e.k)), b(size(e.k, e.n));
    for (auto* matrix : {&a, &b})
      for (bf16& x : *matrix)
        x = bf16(eighth());
    const std::int64_t stride = e.n + 3, bits_stride = e.n + 5;
    std::vector<float> c(size(e.m, stride), NAN);
    for (float& x : c)
      if (accumulate) x = eighth();
    const std::vector<float> before = c;
    constexpr std::uint16_t poison = 0x7fc1;
    std::vector<std::uint16_t> rounded(size(e.m, bits_stride), poison);
    GuardedMemory scratch(static_cast<std::size_t>(dot.scratch_bytes), GuardedMemory::Place::AtEnd, 1);
    std::memset(scratch.data(), 0xff, static_cast<std::size_t>(dot.scratch_bytes));
    dot.run(a.data(), e.k, 1, b.data(), e.n, 1, c.data(), stride, e.m, e.n, e.k, accumulate, scratch.data(),
            rounds ? rounded.data() : nullptr, bits_stride);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < e.m; ++i) {
      for (std::int64_t j = 0; j < bits_stride; ++j) {
        float sum = j < stride && accumulate ? before[size(i, stride) + static_cast<std::size_t>(j)] : 0;
        for (std::int64_t p = 0; j < e.n && p < e.k; ++p)
          sum += static_cast<float>(a[size(i, e.k) + static_cast<std::size_t>(p)]) *
                 static_cast<float>(b[size(p, e.n) + static_cast<std::size_t>(j)]);
        const std::uint16_t bits = rounded[size(i, bits_stride) + static_cast<std::size_t>(j)];
        wrong += bits != (rounds && j < e.n ? std::bit_cast<std::uint16_t>(bf16(sum)) : poison);
        if (!rounds && j < e.n) wrong += c[size(i, stride) + static_cast<std::size_t>(j)] != sum;
      }
    }
    CHECK(wrong == 0);
  };
  check({64, 96, 256}, false, true);
  check({64, 96, 256}, true, true);
  check({33, 70, 1120}, false, true); // several chunks of K
  check({33, 70, 1120}, true, true);
  for (int i = 0; i < 8; ++i) {
    for (const bool rounds : {false, true})
      check({up_to(150, random), up_to(200, random), up_to(200, random)}, random() % 2 == 0, rounds);
  }
}
