// Defines philox, rand_bits, rand and randn, which compute random numbers from a seed and offsets with the
// counter-based generator Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011).
//
//   auto u = rand(seed, m + arange(BM));     // uniform in [0, 1)
//   auto z = randn(seed, offsets);           // normal
//
// A number depends only on its seed and offset, so the results are the same for all tile sizes. philox,
// rand_bits and rand give the same bits on every device; randn is as accurate as log, sqrt and cos are on the
// device.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/functions.h>
#include <kiln/dsl/state.h>

KILN_API_BEGIN
namespace kiln {

namespace detail {
template <class X> inline constexpr bool random_offsets = IsPoison<X> || is_integer_operand<X>;
template <class X>
inline constexpr bool random_seed = IsPoison<X> || (is_integer_operand<X> && operand_shape_t<X>::rank == 0);
} // namespace detail

// Returns four words of 32 random bits for each offset, as four tiles of u32 with the dimensions of
// `offsets`. The seed is an integer scalar or a host integer; seed and offsets count as u64.
//
//   auto [a, b, c, d] = philox(seed, offsets);
template <class Seed, class X>
  requires detail::Operand<Seed> && detail::Operands<X>
auto philox(const Seed& seed, const X& offsets, detail::Location loc = detail::Location::current()) {
  static_assert(detail::random_seed<Seed>, "a seed must be an integer scalar");
  static_assert(detail::random_offsets<X>, "the offsets of random numbers must be integers");
  if constexpr (detail::any_poison<Seed, X> || !detail::random_seed<Seed> || !detail::random_offsets<X>) {
    return Poison{};
  } else {
    detail::set_location(loc);
    using Words = detail::tile_t<std::uint32_t, detail::shape_t<X>>;
    using Word = Scalar<std::uint32_t>;
    Scalar<std::uint64_t> key = cast<std::uint64_t>(detail::recorded(seed));
    auto counter = detail::recorded(cast<std::uint64_t>(offsets));
    Word k0 = cast<std::uint32_t>(key), k1 = cast<std::uint32_t>(key >> 32);
    Words c0 = cast<std::uint32_t>(counter), c1 = cast<std::uint32_t>(counter >> 32);
    Words c2 = c0 ^ c0, c3 = c2;
    for (int round = 0; round < 10; ++round) {
      Words high0 = mul_hi(c0, 0xD2511F53u), low0 = c0 * 0xD2511F53u;
      Words high1 = mul_hi(c2, 0xCD9E8D57u), low1 = c2 * 0xCD9E8D57u;
      c0 = high1 ^ c1 ^ k0;
      c1 = low1;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
      k0 = k0 + 0x9E3779B9u;
      k1 = k1 + 0xBB67AE85u;
    }
    return state(c0, c1, c2, c3);
  }
}

namespace detail {
// Returns the upper 24 bits as a float in [0, 1).
template <class W> auto to_uniform(const W& words) { return cast<float>(words >> 8) * 0x1p-24f; }
} // namespace detail

// Returns 32 random bits for each offset, the first word of philox, as a tile of u32.
template <class Seed, class X>
  requires detail::Operand<Seed> && detail::Operands<X>
auto rand_bits(const Seed& seed, const X& offsets, detail::Location loc = detail::Location::current()) {
  auto words = philox(seed, offsets, loc);
  if constexpr (detail::IsPoison<decltype(words)>)
    return Poison{};
  else
    return words.template get<0>();
}
// Returns uniformly distributed f32 in [0, 1), in steps of 2^-24: the upper 24 bits of rand_bits.
template <class Seed, class X>
  requires detail::Operand<Seed> && detail::Operands<X>
auto rand(const Seed& seed, const X& offsets, detail::Location loc = detail::Location::current()) {
  auto words = philox(seed, offsets, loc);
  if constexpr (detail::IsPoison<decltype(words)>)
    return Poison{};
  else
    return detail::recorded(detail::to_uniform(words.template get<0>()));
}
// Returns normally distributed f32 with mean 0 and standard deviation 1, by the method of Box and Muller ("A
// note on the generation of random normal deviates", 1958).
template <class Seed, class X>
  requires detail::Operand<Seed> && detail::Operands<X>
auto randn(const Seed& seed, const X& offsets, detail::Location loc = detail::Location::current()) {
  auto words = philox(seed, offsets, loc);
  if constexpr (detail::IsPoison<decltype(words)>) {
    return Poison{};
  } else {
    auto radius = sqrt(-2.0f * log(1.0f - detail::to_uniform(words.template get<0>())), loc); // never log(0)
    return detail::recorded(radius *
                            cos(6.2831853071795864769f * detail::to_uniform(words.template get<1>()), loc));
  }
}

} // namespace kiln
KILN_API_END
