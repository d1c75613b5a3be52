// Implements the checks of ops and words their errors.
#include <kiln/ops/detail/checks.h>

#include <string>

namespace kiln::ops::detail {

namespace {

std::string list(int rank, const std::int64_t* values) {
  std::string text = "{";
  for (int i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "}";
}

} // namespace

// Calls through the C functions have no source location.
Checks::Checks(const char* op, const StreamAt& at)
    : op_(op), site_(at.site.line() ? SourceLocation(at.site) : SourceLocation()) {}

void Checks::refuse(const std::string& what) const { throw UserError(site_, std::string(op_) + ": " + what); }

void Checks::equal(const char* what, std::int64_t left, std::int64_t right) const {
  if (left != right)
    refuse(std::string(what) + " differ: " + std::to_string(left) + " != " + std::to_string(right) +
           "; pass tensors whose extents match");
}

void Checks::writes(const Argument& out) const {
  const auto& a = out.array;
  if (kiln::detail::array_repeats(a))
    refuse(std::string(out.name) + " with extents " + list(a.rank, a.extents) + " and strides " +
           list(a.rank, a.strides) + " has several indices for one element; write to a view without them");
}

void Checks::apart(const Argument& out, const Argument& in) const {
  if (kiln::detail::arrays_overlap(out.array, in.array))
    refuse(std::string(out.name) + " overlaps " + in.name +
           ", which is read while it is written; give it memory of its own");
}

void Checks::apart_or_same(const Argument& out, const Argument& in) const {
  if (kiln::detail::is_same_array(out.array, in.array)) return;
  if (kiln::detail::arrays_overlap(out.array, in.array))
    refuse(std::string(out.name) + " overlaps " + in.name + " without being the same; pass " + in.name +
           " itself, or memory of its own");
}

} // namespace kiln::ops::detail
