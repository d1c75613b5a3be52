// Decides whether two strided arrays overlap.
//
// They overlap if a sum of index * stride over all axes of both equals the distance between them. Axes with
// the same stride are combined. Indices are tried from the largest stride down: only those indices are
// possible whose remainder lies in the range of the smaller strides and is divisible by their greatest common
// divisor. For nested strides, as those of slices of one array, these are one or two indices.
#include <kiln/jit/runtime/assign/overlap.h>

#include <algorithm>
#include <numeric>

namespace kiln::detail {

namespace {

class DigitSum {
public:
  // Adds index * stride for indices from `low` to `high`.
  void add(std::int64_t stride, std::int64_t low, std::int64_t high) {
    if (stride < 0) {
      stride = -stride;
      std::swap(low, high);
      low = -low, high = -high;
    }
    if (stride == 0 || (low == 0 && high == 0)) return;
    for (int i = 0; i < count_; ++i)
      if (terms_[i].stride == stride) {
        terms_[i].low += low, terms_[i].high += high;
        return;
      }
    terms_[count_++] = {stride, low, high, 0, 0, 0};
  }

  // Whether the sum can equal `target`.
  bool reaches(std::int64_t target) {
    std::sort(terms_, terms_ + count_, [](const Term& x, const Term& y) { return x.stride > y.stride; });
    Term rest{0, 0, 0, 0, 0, 0};
    for (int i = count_; i-- > 0;) {
      Term& t = terms_[i];
      t.rest_low = rest.rest_low, t.rest_high = rest.rest_high, t.rest_divisor = rest.rest_divisor;
      rest.rest_low += t.low * t.stride, rest.rest_high += t.high * t.stride;
      rest.rest_divisor = std::gcd(rest.rest_divisor, t.stride);
    }
    if (target < rest.rest_low || target > rest.rest_high) return false;
    if (rest.rest_divisor != 0 && target % rest.rest_divisor != 0) return false;
    return search(target, 0);
  }

private:
  struct Term {
    std::int64_t stride, low, high;
    std::int64_t rest_low, rest_high, rest_divisor; // of all smaller strides together
  };

  static std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

  bool search(std::int64_t target, int i) {
    if (i == count_) return target == 0;
    const Term& t = terms_[i];
    std::int64_t first = std::max(t.low, -floor_divide(t.rest_high - target, t.stride));
    std::int64_t last = std::min(t.high, floor_divide(target - t.rest_low, t.stride));
    for (std::int64_t digit = first; digit <= last; ++digit) {
      if (--steps_ < 0) return true;
      std::int64_t rest = target - digit * t.stride;
      bool divides = t.rest_divisor == 0 ? rest == 0 : rest % t.rest_divisor == 0;
      if (divides && search(rest, i + 1)) return true;
    }
    return false;
  }

  int count_ = 0;
  int steps_ = 20000; // limits the search to a fraction of a millisecond
  Term terms_[2 * max_rank];
};

bool is_empty(const StridedArray& a) {
  return std::find(a.extents, a.extents + a.rank, 0) != a.extents + a.rank;
}

} // namespace

bool arrays_overlap(const StridedArray& a, const StridedArray& b) {
  if (is_empty(a) || is_empty(b)) return false;
  DigitSum sum;
  for (int i = 0; i < a.rank; ++i)
    sum.add(a.strides[i], 0, a.extents[i] - 1);
  for (int i = 0; i < b.rank; ++i)
    sum.add(-b.strides[i], 0, b.extents[i] - 1);
  auto distance = reinterpret_cast<std::intptr_t>(b.data) - reinterpret_cast<std::intptr_t>(a.data);
  return sum.reaches(distance / a.element_bytes);
}

bool array_repeats(const StridedArray& a) {
  if (is_empty(a)) return false;
  // Two different indices differ first in some axis; one of them is larger there.
  for (int first = 0; first < a.rank; ++first) {
    std::int64_t extent = a.extents[first];
    if (extent == 1) continue;
    if (a.strides[first] == 0) return true;
    DigitSum sum;
    sum.add(a.strides[first], 1, extent - 1);
    for (int i = first + 1; i < a.rank; ++i)
      sum.add(a.strides[i], 1 - a.extents[i], a.extents[i] - 1);
    if (sum.reaches(0)) return true;
  }
  return false;
}

bool is_same_array(const StridedArray& a, const StridedArray& b) {
  if (a.data != b.data || a.rank != b.rank || a.element_bytes != b.element_bytes) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.extents[i] != b.extents[i] || (a.extents[i] > 1 && a.strides[i] != b.strides[i])) return false;
  return true;
}

} // namespace kiln::detail
