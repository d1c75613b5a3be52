// Defines Dim, the extent of an axis of a tile: a number, a named dimension, or products and quotients of
// them (`BM*2`, `BK/4`).
#pragma once

#include <kiln/dsl/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::ir {

// A Dim is numerator * product(factors) / (denominator * product(divisors)). It is always reduced and sorted,
// so that equal extents compare equal. Factors and divisors are interned names. Binding a config replaces
// every Dim of a kernel by a number.
class Dim {
public:
  Dim(std::int64_t value = 1) : numerator_(value) {}
  static Dim symbol(const char* interned_name);

  bool is_constant() const { return factors_.empty() && divisors_.empty() && denominator_ == 1; }
  std::int64_t value() const; // throws InternalError unless is_constant()
  bool is_one() const { return is_constant() && numerator_ == 1; }

  // Returns the extent for the sizes of `config`. Throws UserError if a name has no size, a size is not
  // positive, a product overflows, or a quotient is not a whole number.
  std::int64_t bind(const Config& config) const;
  // Appends the names in this extent that `into` does not contain yet.
  void collect_symbols(std::vector<const char*>& into) const;

  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator/(const Dim& a, const Dim& b);
  bool operator==(const Dim&) const = default;
  std::string to_string() const;

private:
  void reduce();
  std::int64_t numerator_ = 1, denominator_ = 1;
  std::vector<const char*> factors_, divisors_;
};

using Shape = std::vector<Dim>;

} // namespace kiln::ir
