// Compares outputs by norm and by element.
#include <kiln/autotune/measure/compare.h>

#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kiln::tune {

namespace {

// What one element may differ by, as a share of its own size and the typical one. Errors that the norm allows
// are normal at worst, so that of a million elements none is off by six times the norm's share; sums in f32
// have longer tails. Past half of its size an element says nothing, whatever its dtype.
double allowed_of_element(double tolerance) {
  return std::min({64 * tolerance, std::max(0.05, 8 * tolerance), 0.5});
}

// Elements as doubles: by a table for small floats.
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
         "is " + element_text(reference_.dtype, got(i)) + ", and the reference has " +
             element_text(reference_.dtype, right(i)));
  }
  // The poison is a NaN too: one that the reference would have written with other bits. Floats of one byte
  // have too few of them to tell.
  bool only_looks_written(std::size_t i) const {
    return size_ > 1 && is_poison(i) && std::memcmp(got(i), right(i), size_) != 0;
  }
  // Whether there is no more to say of the element.
  bool untouched(std::size_t i) {
    if (reference_.unwritten.empty() || !reference_.unwritten[i]) return false;
    if (!is_poison(i)) fail(Verdict::Kind::wrong, i, "is written, and the reference leaves it alone");
    return true;
  }
  bool ok() const { return verdict_.kind == Verdict::Kind::right; }

  // An element that is not written is no number either, and never left out.
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
      std::snprintf(text, sizeof text, "the relative error is %.3g, and %.3g is allowed",
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
