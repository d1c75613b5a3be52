// Implements the checks of ops and words their errors.
#include <kiln/ops/detail/checks.h>

#include <algorithm>
#include <string>
#include <utility>

namespace kiln::ops::detail {

namespace {

std::string list(int rank, const std::int64_t* values) {
  std::string text = "{";
  for (int i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "}";
}

kiln::detail::StridedArray strided(const Array& a) {
  return {a.data, a.rank, a.extents, a.strides, size_of(a.dtype)};
}

// The first and the last byte of an array that is not empty.
std::pair<const char*, const char*> range_of(const Array& a) {
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < a.rank; ++i)
    (a.strides[i] < 0 ? low : high) += a.strides[i] * (a.extents[i] - 1);
  const char* data = static_cast<const char*>(a.data);
  return {data + low * size_of(a.dtype), data + (high + 1) * size_of(a.dtype) - 1};
}

// Arrays of elements of different sizes count as overlapping if their ranges do.
bool overlap(const Array& a, const Array& b) {
  if (size_of(a.dtype) == size_of(b.dtype)) return kiln::detail::arrays_overlap(strided(a), strided(b));
  if (a.size() == 0 || b.size() == 0) return false;
  const auto [a_first, a_last] = range_of(a);
  const auto [b_first, b_last] = range_of(b);
  return a_first <= b_last && b_first <= a_last;
}

} // namespace

// Calls through the C functions have no source location.
Checks::Checks(const char* op, const StreamAt& at)
    : op_(op), site_(at.site.line() ? SourceLocation(at.site) : SourceLocation()) {}

void Checks::refuse(const std::string& what) const { throw UserError(site_, std::string(op_) + ": " + what); }

void Checks::equal(const Parts& what, std::int64_t left, std::int64_t right) const {
  if (left != right)
    refuse(std::string(what.first) + what.second + what.third + what.fourth + " differ: " +
           std::to_string(left) + " != " + std::to_string(right) + "; pass tensors whose extents match");
}

void Checks::floats(const Argument& argument) const {
  if (!is_float(argument.array.dtype))
    refuse(std::string(argument.name) + " is of " + std::string(name(argument.array.dtype)) +
           "; pass f32, f64, bf16, f16, f8e4m3 or f8e5m2");
}

void Checks::integers(const Argument& argument) const {
  if (argument.array.dtype != DType::I32 && argument.array.dtype != DType::I64)
    refuse(std::string(argument.name) + " is of " + std::string(name(argument.array.dtype)) +
           "; pass i32 or i64");
}

void Checks::rank_at_least(const Argument& argument, int rank) const {
  if (argument.array.rank < rank)
    refuse(std::string(argument.name) + " has " + std::to_string(argument.array.rank) +
           " axes and needs at least " + std::to_string(rank) + "; reshape it");
  if (argument.array.rank > max_rank)
    refuse(std::string(argument.name) + " has " + std::to_string(argument.array.rank) +
           " axes and may have at most " + std::to_string(max_rank) + "; reshape it");
}

void Checks::rank(const Argument& argument, int rank) const {
  if (argument.array.rank != rank)
    refuse(std::string(argument.name) + " has " + std::to_string(argument.array.rank) + " axes and needs " +
           std::to_string(rank) + "; reshape it");
}

void Checks::activation(Activation activation) const {
  const int value = static_cast<int>(activation);
  if (value < activation_count) return;
  std::string names;
  for (int i = 0; i < activation_count; ++i)
    names += (i > 0 ? ", " : "") + std::string(name(static_cast<Activation>(i)));
  refuse("there is no activation with the value " + std::to_string(value) + "; pass one of " + names);
}

void Checks::that(bool right, const char* mistake) const {
  if (!right) refuse(mistake);
}

void Checks::same_extents(const Argument& a, const Argument& b) const {
  if (a.array.rank != b.array.rank ||
      !std::equal(a.array.extents, a.array.extents + a.array.rank, b.array.extents))
    refuse(std::string(a.name) + " has extents " + list(a.array.rank, a.array.extents) + " and " + b.name +
           " " + list(b.array.rank, b.array.extents) + "; pass tensors of the same extents");
}

void Checks::broadcasts(const Argument& in, const Argument& out, const char* what) const {
  const Array &a = in.array, &b = out.array;
  const int added = b.rank - a.rank;
  bool fits = added >= 0;
  for (int i = 0; fits && i < a.rank; ++i)
    fits = a.extents[i] == 1 || a.extents[i] == b.extents[added + i];
  if (fits) return;
  const bool part = *what != 0;
  refuse(what + std::string(in.name) + ", " + list(a.rank, a.extents) +
         (part ? ", do not broadcast to those of " : ", does not broadcast to ") + out.name + ", " +
         list(b.rank, b.extents) + "; pass extents that are equal or 1");
}

void Checks::axis(const Argument& argument, int axis) const {
  const int rank = argument.array.rank;
  if (axis < -rank || axis >= rank)
    refuse("there is no axis " + std::to_string(axis) + " of " + argument.name + ", which has " +
           std::to_string(rank) + "; pass " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
}

void Checks::writes(const Argument& out) const {
  const Array& a = out.array;
  if (kiln::detail::array_repeats(strided(a)))
    refuse(std::string(out.name) + " with extents " + list(a.rank, a.extents) + " and strides " +
           list(a.rank, a.strides) + " has several indices for one element; write to a view without them");
}

void Checks::apart(const Argument& out, const Argument& in) const {
  if (overlap(out.array, in.array))
    refuse(std::string(out.name) + " overlaps " + in.name +
           ", which is read while it is written; give it memory of its own");
}

void Checks::apart_or_same(const Argument& out, const Argument& in) const {
  if (out.array.dtype == in.array.dtype && kiln::detail::is_same_array(strided(out.array), strided(in.array)))
    return;
  if (overlap(out.array, in.array))
    refuse(std::string(out.name) + " overlaps " + in.name + " without being the same; pass " + in.name +
           " itself, or memory of its own");
}

} // namespace kiln::ops::detail
