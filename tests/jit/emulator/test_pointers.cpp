// Tests accesses by pointers, gathers of adjacent elements and packed atomics, as PTX on the emulated GPU.
#include "kiln_kernel.h"
#include "test_seed.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <kiln/dsl/record.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/kiln.h>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BN);

struct Run {
  const ir::Kernel& recorded;
  Config config;
  int warps;
  std::vector<std::uint64_t> words;
  std::vector<std::span<std::byte>> memories;
  std::vector<std::int64_t> grid;
  std::uint64_t seed;
  std::vector<LayoutClass> layouts = {};
};

// Returns the PTX, after a run without findings.
std::string run(const Run& r, const std::string& arch) {
  auto lowered = passes::lower_generic(r.recorded, {r.config, r.layouts});
  test::EmulatedKernel kernel(*lowered, arch, r.warps);
  auto report = kernel.run(r.words.data(), r.memories, r.grid, {.seed = r.seed});
  CAPTURE(arch, r.seed);
  INFO(report.text());
  REQUIRE(report.ok());
  return kernel.text();
}

template <class T> std::uint64_t word(T* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
template <class T> std::span<std::byte> bytes(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

template <class T> void check_copy(const std::string& wide) {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto copy = record("copy", [](raw::Ptr<const T> in, raw::Ptr<T> out, Scalar<std::int64_t> n) {
    auto i = program_id(0) * BN + arange(BN);
    raw::store(out + i, raw::load(in + i, i < n), i < n);
  });
  for (int round = 0; round < 6; ++round) {
    const std::size_t n = random() % 5000 + 1, from = random() % 3 * (random() % 2),
                      to = random() % 3 * (random() % 2);
    CAPTURE(n, from, to);
    std::vector<T> in(n + 4), out(n + 4, T(7));
    for (T& x : in)
      x = static_cast<T>(static_cast<float>(random() % 100));
    const std::int64_t block = 2048; // at least 16 bytes per thread
    const std::string ptx = run({.recorded = *copy,
                                 .config = {BN = block},
                                 .warps = 1 << random() % 3,
                                 .words = {word(in.data() + from), word(out.data() + to), n},
                                 .memories = {bytes(in), bytes(out)},
                                 .grid = {(static_cast<std::int64_t>(n) + block - 1) / block},
                                 .seed = seed},
                                round % 2 ? "sm_80" : "sm_90a");
    CHECK(has(ptx, ("ld.global" + wide).c_str()));
    CHECK(has(ptx, ("st.global" + wide).c_str()));
    for (std::size_t i = 0; i < out.size(); ++i)
      REQUIRE(static_cast<float>(out[i]) ==
              (i >= to && i < to + n ? static_cast<float>(in[from + i - to]) : 7.0f));
  }
}

// Several programs each add a part of a row; then one program reads what was there.
template <class T> void check_atomic_add(const char* name, const std::string& arch, bool is_native) {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto add = record("add", [](raw::Ptr<const T> in, raw::Ptr<T> sums, Scalar<std::int64_t> n) {
    auto i = arange(BN);
    raw::atomic_add(sums + i, raw::load(in + program_id(0) * BN + i), i < n);
  });
  auto exchange = record("exchange", [](raw::Ptr<const T> in, raw::Ptr<T> sums, raw::Ptr<T> before) {
    auto i = arange(BN);
    raw::store(before + i, raw::atomic_add(sums + i, raw::load(in + i)));
  });
  for (int round = 0; round < 4; ++round) {
    constexpr std::int64_t block = 256, programs = 5;
    const std::size_t shift = random() % 2, n = random() % 257;
    CAPTURE(arch, shift, n);
    std::vector<T> in(block * programs), sums(block + 2, T(1.0f)) /* whole words: a swap takes both halves */,
        before(block, T(-1.0f));
    for (T& x : in)
      x = T(static_cast<float>(random() % 20));
    const int warps = 1 << random() % 2;
    const std::string ptx = run({.recorded = *add,
                                 .config = {BN = block},
                                 .warps = warps,
                                 .words = {word(in.data()), word(sums.data() + shift), n},
                                 .memories = {bytes(in), bytes(sums)},
                                 .grid = {programs},
                                 .seed = seed},
                                arch);
    CHECK(has(ptx, (std::string("global.add.noftz.") + name + "x2").c_str()) == is_native);
    CHECK(has(ptx, ".cas.") != is_native);
    std::vector<float> expected(sums.size(), 1);
    for (std::size_t p = 0; p < programs; ++p)
      for (std::size_t i = 0; i < n; ++i)
        expected[shift + i] += static_cast<float>(in[p * block + i]);
    for (std::size_t i = 0; i < sums.size(); ++i)
      REQUIRE(static_cast<float>(sums[i]) == expected[i]);
    run({.recorded = *exchange,
         .config = {BN = block},
         .warps = warps,
         .words = {word(in.data()), word(sums.data() + shift), word(before.data())},
         .memories = {bytes(in), bytes(sums), bytes(before)},
         .grid = {1},
         .seed = seed},
        arch);
    for (std::size_t i = 0; i < block; ++i) {
      REQUIRE(static_cast<float>(before[i]) == expected[shift + i]);
      REQUIRE(static_cast<float>(sums[shift + i]) == expected[shift + i] + static_cast<float>(in[i]));
    }
  }
}

} // namespace

TEST_CASE("emulated: pointers to neighbours, aligned or not, in vectors where they are", "[emulator]") {
  check_copy<float>(".v4.b32");
  check_copy<bf16>(".v4.b32");
  check_copy<double>(".v2.b64");
  check_copy<std::int8_t>(".v4.b32");
}

TEST_CASE("emulated: f16 and bf16 atomic sums, two at a time where they are aligned", "[emulator]") {
  check_atomic_add<f16>("f16", "sm_80", true);
  check_atomic_add<f16>("f16", "sm_90a", true);
  check_atomic_add<bf16>("bf16", "sm_80", false);
  check_atomic_add<bf16>("bf16", "sm_90a", true);
}

TEST_CASE("emulated: a gather of neighbours, part of them outside", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto shift = record("shift", [](View<const float, 2> x, View<float, 1> y, Scalar<std::int64_t> row,
                                  Scalar<std::int64_t> by) {
    auto [i] = program_tile(y, BN);
    auto column = i + arange(BN) + by;
    y.tile(i).store(x.at(row, column).load());
  });
  for (int round = 0; round < 6; ++round) {
    const std::int64_t rows = 3, columns = static_cast<std::int64_t>(random() % 1000 + 1),
                       stride = columns + static_cast<std::int64_t>(random() % 4),
                       row = static_cast<std::int64_t>(random() % 5) - 1,
                       by = static_cast<std::int64_t>(random() % 9) - 4;
    CAPTURE(columns, stride, row, by);
    std::vector<float> in(static_cast<std::size_t>(rows * stride)),
        out(static_cast<std::size_t>(columns), -1);
    for (float& x : in)
      x = static_cast<float>(random() % 1000);
    const auto n = static_cast<std::uint64_t>(columns);
    const std::string ptx =
        run({.recorded = *shift,
             .config = {BN = 512},
             .warps = 2,
             .words = {word(in.data()), 3, n, static_cast<std::uint64_t>(stride), 1, word(out.data()), n, 1,
                       static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(by)},
             .memories = {bytes(in), bytes(out)},
             .grid = {(columns + 511) / 512},
             .seed = seed,
             .layouts = {LayoutClass::Unit, LayoutClass::Unit}},
            "sm_90a");
    CHECK(has(ptx, "ld.global.v4.b32"));
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t c = i + by;
      const bool inside = row >= 0 && row < rows && c >= 0 && c < columns;
      REQUIRE(out[static_cast<std::size_t>(i)] ==
              (inside ? in[static_cast<std::size_t>(row * stride + c)] : 0.0f));
    }
  }
}
