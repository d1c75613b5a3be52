// Tests kernels that round nowhere or only once, so that right configs compute the same bits.
#include "checked.h"

#include <kiln/autotune/measure/rounding_depth.h>

using namespace kiln;
using namespace kiln::test;

namespace {

using std::int32_t, std::uint16_t, std::uint32_t;
constexpr std::int64_t n = 20'000;

// round(10^7 x), or with its lowest bit flipped.
auto fixed_point(bool wrong) {
  return kernel("fixed_point", [=](View<const float, 1> x, View<int32_t, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = cast<int32_t>(round(x.tile(i).load() * 1e7f));
    y.tile(i).store(wrong ? Tile(t ^ 1) : t);
  });
}

// round(10^7 x s / t) in one of two ways.
auto scaled(bool other) {
  return kernel("scaled", [=](View<const float, 1> x, View<int32_t, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(cast<int32_t>(round(other ? Tile(t * 3e7f * (1 / 3.3f)) : Tile(t * 3e7f / 3.3f))));
  });
}

// Unsigned integers in the order of the floats.
auto sort_keys(bool wrong) {
  return kernel("sort_keys", [=](View<const float, 1> x, View<uint32_t, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile bits = bitcast<uint32_t>(x.tile(i).load());
    Tile negative = (bits >> 31u) == 1u;
    y.tile(i).store(where(negative, wrong ? Tile(~bits ^ 1u) : Tile(~bits), bits | 0x80000000u));
  });
}

auto bit_masks(bool wrong) {
  return kernel("bit_masks", [=](View<const float, 2> x, View<uint32_t, 1> y) {
    auto [m] = program_tile(y, BN);
    Tile bits = cast<uint32_t>(x.tile(m, offset(32_c, 0)).load() > 0.5f) << cast<uint32_t>(arange(32_c));
    Tile words = sum(bits, 32_c);
    y.tile(m).store(wrong ? Tile(where(m + arange(BN) == y.size() - 1, words ^ 1u, words)) : words);
  });
}

auto cast_to_bf16(bool wrong) {
  return kernel("cast_to_bf16", [=](View<const float, 1> x, View<bf16, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = cast<bf16>(x.tile(i).load());
    y.tile(i).store(wrong ? Tile(bitcast<bf16>(bitcast<uint16_t>(t) + cast<uint16_t>(1))) : t);
  });
}

auto copy(unsigned units) {
  return kernel("copy", [=](View<const float, 1> x, View<float, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(units ? Tile(bitcast<float>(bitcast<uint32_t>(t) + units)) : t);
  });
}

template <class K> int depth_of(const K& k) { return tune::rounding_depth(*k.record(bn(64))); }

} // namespace

TEST_CASE("integers that all differ by their lowest bit are wrong if the kernel rounds once at most") {
  Compared fixed({in<float>({n}), out<int32_t>({n})}, bn(64), bn(512)),
      keys({in<float>({n}), out<uint32_t>({n})}, bn(64), bn(512));
  CHECK(fixed.error(fixed_point(false), fixed_point(false)) == "");
  CHECK(fixed.error(fixed_point(false), fixed_point(true)) != "");
  CHECK(fixed.error(scaled(false), scaled(true)) == "");
  CHECK(keys.error(sort_keys(false), sort_keys(false)) == "");
  CHECK(keys.error(sort_keys(false), sort_keys(true)) != "");
}

TEST_CASE("a single wrong bit in a mask is found") {
  Compared compared({in<float>({4000, 32}), out<uint32_t>({4000})}, bn(64), bn(16));
  CHECK(compared.error(bit_masks(false), bit_masks(false)) == "");
  CHECK(compared.error(bit_masks(false), bit_masks(true)) != "");
}

TEST_CASE("copies and casts that are off by a few units everywhere are wrong") {
  Compared casts({in<float>({n}), out<bf16>({n})}, bn(64), bn(512)),
      copies({in<float>({n}), out<float>({n})}, bn(64), bn(512));
  CHECK(casts.error(cast_to_bf16(false), cast_to_bf16(false)) == "");
  CHECK(casts.error(cast_to_bf16(false), cast_to_bf16(true)) != "");
  CHECK(copies.error(copy(0), copy(0)) == "");
  CHECK(copies.error(copy(0), copy(1)) != "");
  CHECK(copies.error(copy(0), copy(5)) != "");
}

TEST_CASE("the depth of roundings follows loops, functions and sums") {
  CHECK(depth_of(copy(0)) == 0);
  CHECK(depth_of(sort_keys(false)) == 0);
  CHECK(depth_of(bit_masks(false)) == 0);
  CHECK(depth_of(cast_to_bf16(false)) == 0);
  CHECK(depth_of(fixed_point(false)) == 1);
  CHECK(depth_of(scaled(false)) == 2);
  CHECK(depth_of(kernel("once", [](View<const float, 1> x, View<float, 1> y) {
          auto [i] = program_tile(y, BN);
          y.tile(i).store(sqrt(max(x.tile(i).load(), 0.0f)));
        })) == 1);
  CHECK(depth_of(kernel("looped", [](View<const float, 2> x, View<float, 1> y) {
          auto [m] = program_tile(y, 1_c);
          y.tile(m).store(for_range(BN, x.cols(), zeros<float>(1_c),
                                    [&](auto n, auto t) { return t + max(x.tile(m, n).load(), BN); }));
        })) == 2);
}
