// Defines the order in which a sort puts the elements of each dtype.
//
// Every element has a key, an unsigned integer as wide as the element, and elements are compared by their
// keys. The keys of numbers are in the order of the numbers, with -0 below 0. All NaN have the same key, in
// which all bits are set, so that NaN is above every number. false is below true.
#pragma once

#include <kiln/dsl/ir/semantics.h>

namespace kiln::ir {

// The bits of the greatest magnitude of a float that is not NaN: infinity, or without one the largest number.
constexpr std::uint64_t greatest_magnitude(DType t) {
  switch (t) {
  case DType::F64: return 0x7ff0000000000000;
  case DType::F32: return 0x7f800000;
  case DType::F16: return 0x7c00;
  case DType::BF16: return 0x7f80;
  case DType::F8E4M3: return 0x7e;
  default: return 0x7c; // F8E5M2
  }
}

constexpr int key_bits(DType t) { return 8 * size_of(t); }

// The key of an element.
constexpr std::uint64_t sort_key(DType t, Cell x) {
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - key_bits(t)), sign = all ^ (all >> 1), bits = x & all;
  if (is_float(t)) {
    if ((bits & ~sign) > greatest_magnitude(t)) return all;
    return bits & sign ? bits ^ all : bits ^ sign;
  }
  return is_signed(t) ? bits ^ sign : bits;
}

} // namespace kiln::ir
