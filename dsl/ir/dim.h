// The extent of one tile axis: a number, a named dimension, or a product and quotient of both (`BM*2`,
// `BK/4`).
#pragma once

#include <kiln/dsl/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::ir {

// numerator * product(factors) / (denominator * product(divisors)), always reduced and sorted, so that equal
// extents compare equal. Symbols are interned names. Binding a config turns every Dim of a kernel into a
// number.
class Dim {
public:
  Dim(std::int64_t value = 1) : numerator_(value) {}
  static Dim symbol(const char* interned_name);

  bool is_constant() const { return factors_.empty() && divisors_.empty() && denominator_ == 1; }
  std::int64_t value() const; // InternalError unless constant
  bool is_one() const { return is_constant() && numerator_ == 1; }

  // The number under `config`. UserError names a symbol without a size, a size that is not positive, or a
  // quotient that is not whole.
  std::int64_t bind(const Config& config) const;
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
