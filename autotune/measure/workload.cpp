// Converts the parameters and words of a launch to arguments, and describes tensors and scalars.
#include <kiln/autotune/measure/workload.h>

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>

namespace kiln::tune {

namespace {

using kiln::detail::ParameterInfo;

[[noreturn]] void refuse(std::size_t index, const std::string& what) {
  throw UserError("argument " + std::to_string(index + 1) + " of the measured launch " + what);
}

} // namespace

ByteRange bytes_of(const Argument& a, std::size_t index) {
  if (a.kind == Argument::Kind::pointer) return {0, a.bytes};
  if (a.kind == Argument::Kind::scalar) return {};
  const std::int64_t size = size_of(a.dtype);
  if (a.extents.size() != a.strides.size()) refuse(index, "does not have one stride for each extent");
  std::int64_t low = 0, high = 0;
  for (std::size_t i = 0; i < a.extents.size(); ++i) {
    if (a.extents[i] < 0) refuse(index, "has a negative extent");
    if (a.extents[i] == 0) return {};
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(a.extents[i] - 1, a.strides[i], &reach) ||
        __builtin_add_overflow(reach, reach < 0 ? low : high, reach < 0 ? &low : &high))
      refuse(index, "needs offsets of more than 64 bits");
  }
  ByteRange bytes;
  if (__builtin_mul_overflow(low, size, &bytes.low) || __builtin_mul_overflow(high + 1, size, &bytes.high))
    refuse(index, "needs offsets of more than 64 bits");
  return bytes;
}

std::vector<Argument> arguments_of(std::span<const ParameterInfo> parameters, const std::uint64_t* words,
                                   std::span<const std::int64_t> pointer_bytes,
                                   const GivenContents& contents) {
  std::vector<Argument> arguments;
  std::size_t pointers = 0;
  for (const ParameterInfo& p : parameters) {
    Argument& a = arguments.emplace_back();
    a.dtype = p.dtype;
    a.readonly = p.readonly;
    switch (p.kind) {
    case ParameterInfo::Kind::Scalar:
      a.kind = Argument::Kind::scalar;
      a.word = *words++;
      break;
    case ParameterInfo::Kind::Pointer:
      a.kind = Argument::Kind::pointer;
      if (pointers == pointer_bytes.size())
        throw UserError(
            "argument " + std::to_string(arguments.size()) +
            " of the measured launch is a raw pointer of unknown size; give the number of bytes behind it");
      a.bytes = pointer_bytes[pointers++];
      a.address = *words++;
      break;
    case ParameterInfo::Kind::View: {
      const auto rank = static_cast<std::size_t>(p.rank);
      a.address = *words++;
      a.extents.assign(words, words + rank);
      a.strides.assign(words + rank, words + 2 * rank);
      words += 2 * rank;
      a.pinned = p.layout;
      break;
    }
    }
    if (const std::size_t i = arguments.size() - 1; i < contents.size() && contents[i]) {
      a.fill.kind = Fill::Kind::bytes;
      a.fill.bytes = contents[i];
    }
  }
  return arguments;
}

bool is_contiguous(const Argument& view) {
  std::int64_t stride = 1;
  for (std::size_t axis = view.extents.size(); axis-- > 0; stride *= view.extents[axis])
    if (view.extents[axis] != 1 && view.strides[axis] != stride) return false;
  return true;
}

Argument tensor_argument(DType dtype, std::vector<std::int64_t> extents, bool readonly) {
  Argument a;
  a.dtype = dtype;
  a.readonly = readonly;
  a.strides.resize(extents.size());
  std::int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    a.strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(1, extents[i]), &stride))
      throw UserError("a measured tensor has too many elements for 64-bit offsets");
  }
  a.extents = std::move(extents);
  return a;
}

Argument scalar_argument(DType dtype, double value) {
  Argument a;
  a.kind = Argument::Kind::scalar;
  a.dtype = dtype;
  a.word = is_float(dtype) ? ir::cell_of_float(dtype, value)
                           : ir::cell_of_integer(dtype, static_cast<std::int64_t>(value));
  const int bits = 8 * size_of(dtype);
  if (bits < 64) a.word &= (std::uint64_t{1} << bits) - 1; // upper bytes are zero
  return a;
}

std::vector<std::optional<LayoutClass>> pinned_layouts(const std::vector<Argument>& arguments) {
  std::vector<std::optional<LayoutClass>> pinned;
  for (const Argument& a : arguments)
    if (a.kind == Argument::Kind::view)
      pinned.push_back(a.pinned >= 0 ? std::optional(static_cast<LayoutClass>(a.pinned)) : std::nullopt);
  return pinned;
}

} // namespace kiln::tune
