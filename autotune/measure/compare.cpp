// Compares outputs by their norms and by element.
#include <kiln/autotune/measure/compare.h>

#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kiln::tune {

namespace {

// Returns the allowed difference of one element, relative to its magnitude plus the typical magnitude. Errors
// that the norm allows are at worst normally distributed, so that among a million elements none exceeds six
// times the norm's fraction; f32 sums have longer tails. A fraction above a half would accept any value.
double allowed_of_element(double tolerance) {
  return std::min({64 * tolerance, std::max(0.05, 8 * tolerance), 0.5});
}

// Converts elements to doubles, with a table for small floats.
class Decoder {
public:
  explicit Decoder(DType t) : dtype_(t) {
    if (t != DType::F32 && t != DType::F64 && is_float(t)) {
      table_.resize(std::size_t{1} << (8 * size_of(t)));
      for (std::size_t bits = 0; bits < table_.size(); ++bits)
        table_[bits] = decode_float(t, static_cast<std::uint16_t>(bits));
    }
  }
  double operator()(const unsigned char* at) const {
    if (dtype_ == DType::F32) {
      float f;
      std::memcpy(&f, at, sizeof f);
      return f;
    }
    if (dtype_ == DType::F64) {
      double d;
      std::memcpy(&d, at, sizeof d);
      return d;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, static_cast<std::size_t>(size_of(dtype_)));
    return table_[bits];
  }

private:
  DType dtype_;
  std::vector<double> table_;
};

std::string element_text(DType t, const unsigned char* at) {
  const ir::Cell cell = ir::load_cell(t, at);
  if (!is_float(t))
    return is_unsigned(t) ? std::to_string(cell) : std::to_string(static_cast<std::int64_t>(cell));
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(ir::float_of(t, cell)));
  return text;
}

class Comparison {
public:
  Comparison(const ReferenceOutput& reference, std::span<const unsigned char> values,
             std::span<const unsigned char> poisoned, double tolerance, Strictness strictness)
      : reference_(reference), values_(values), poisoned_(poisoned), tolerance_(tolerance),
        numbers_alone_(strictness == Strictness::numbers),
        size_(static_cast<std::size_t>(size_of(reference.dtype))), count_(values.size() / size_) {}

  Verdict run() {
    if (is_float(reference_.dtype))
      floats();
    else
      integers();
    return verdict_;
  }

private:
  const unsigned char* got(std::size_t i) const { return values_.data() + i * size_; }
  const unsigned char* right(std::size_t i) const { return reference_.values.data() + i * size_; }
  bool is_poison(std::size_t i) const {
    return !poisoned_.empty() && std::memcmp(got(i), poisoned_.data() + i * size_, size_) == 0;
  }

  void fail(Verdict::Kind kind, std::size_t i, const std::string& what) {
    verdict_.kind = kind;
    verdict_.error = "element " + std::to_string(i) + " " + what;
  }
  void differs(std::size_t i, Verdict::Kind kind = Verdict::Kind::wrong) {
    if (is_poison(i)) return fail(Verdict::Kind::wrong, i, "is not written");
    fail(kind, i,
         "is " + element_text(reference_.dtype, got(i)) + ", but the reference has " +
             element_text(reference_.dtype, right(i)));
  }
  // The pattern is a NaN as well. The reference wrote a NaN with other bits here, so the candidate wrote
  // nothing. One-byte floats have too few NaNs for this distinction.
  bool only_looks_written(std::size_t i) const {
    return size_ > 1 && is_poison(i) && std::memcmp(got(i), right(i), size_) != 0;
  }
  // Returns whether the element needs no further comparison, because the reference did not write it.
  bool untouched(std::size_t i) {
    if (reference_.unwritten.empty() || !reference_.unwritten[i]) return false;
    if (!is_poison(i)) fail(Verdict::Kind::wrong, i, "is written, but the reference does not write it");
    return true;
  }
  bool ok() const { return verdict_.kind == Verdict::Kind::right; }

  // An element that is not written holds a NaN pattern, but must be compared.
  bool is_left_out(double r, double g, std::size_t i) const {
    return numbers_alone_ && !(std::isfinite(r) && std::isfinite(g)) && !is_poison(i);
  }

  void integers() {
    if (poisoned_.empty() && std::memcmp(values_.data(), reference_.values.data(), values_.size()) == 0)
      return;
    for (std::size_t i = 0; i < count_ && ok(); ++i)
      if (!untouched(i) && std::memcmp(got(i), right(i), size_) != 0) differs(i);
  }

  void floats() {
    const Decoder decode(reference_.dtype);
    double error = 0, size = 0;
    std::size_t numbers = 0;
    for (std::size_t i = 0; i < count_ && ok(); ++i) {
      if (untouched(i)) continue;
      const double r = decode(right(i)), g = decode(got(i));
      if (is_left_out(r, g, i)) continue;
      if (std::isnan(r)) {
        if (!std::isnan(g) || only_looks_written(i)) differs(i);
      } else if (std::isnan(g)) {
        differs(i, Verdict::Kind::not_a_number);
      } else if (std::isinf(r) || std::isinf(g)) {
        if (r != g) differs(i);
      } else {
        error += (g - r) * (g - r);
        size += r * r;
        ++numbers;
      }
    }
    if (!ok() || numbers == 0) return;
    verdict_.relative_error = error == 0 ? 0 : std::sqrt(error / size);
    const double typical = std::sqrt(size / static_cast<double>(numbers));
    if (error == 0) return;
    const double allowed = allowed_of_element(tolerance_);
    for (std::size_t i = 0; i < count_ && ok(); ++i) {
      if (!reference_.unwritten.empty() && reference_.unwritten[i]) continue;
      const double r = decode(right(i)), g = decode(got(i));
      if (is_left_out(r, g, i)) continue;
      if (std::abs(g - r) > allowed * (std::abs(r) + typical)) differs(i);
    }
    if (!ok()) return;
    if (!(verdict_.relative_error <= tolerance_)) {
      char text[96];
      std::snprintf(text, sizeof text, "the relative error is %.3g, but only %.3g is allowed",
                    verdict_.relative_error, tolerance_);
      verdict_.kind = Verdict::Kind::wrong;
      verdict_.error = text;
    }
  }

  const ReferenceOutput& reference_;
  std::span<const unsigned char> values_, poisoned_;
  double tolerance_;
  bool numbers_alone_;
  std::size_t size_, count_;
  Verdict verdict_;
};

} // namespace

Verdict compare(const ReferenceOutput& reference, std::span<const unsigned char> values,
                std::span<const unsigned char> poisoned, double tolerance, Strictness strictness) {
  return Comparison(reference, values, poisoned, tolerance, strictness).run();
}

} // namespace kiln::tune
