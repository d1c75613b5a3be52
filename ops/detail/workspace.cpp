// Divides the memory of a call among its intermediate results.
#include <kiln/ops/detail/workspace.h>

#include <kiln/dsl/dtype.h>
#include <kiln/dsl/error.h>

#include <algorithm>

namespace kiln::ops::detail {
namespace {
constexpr std::int64_t alignment = 256;
} // namespace

// A Buffer of the host is aligned to less.
Workspace::Workspace(const StreamAt& at, std::int64_t bytes)
    : memory_(at.stream, bytes ? bytes + alignment : 0, at.site), bytes_(bytes) {}

std::int64_t Workspace::bytes(DType dtype, std::int64_t elements) {
  return (elements * size_of(dtype) + alignment - 1) / alignment * alignment;
}

Output Workspace::take(DType dtype, std::initializer_list<std::int64_t> extents) {
  Array shape{nullptr, dtype, false, static_cast<int>(extents.size())};
  std::copy(extents.begin(), extents.end(), shape.extents);
  return take_like(dtype, shape);
}

Output Workspace::take_like(DType dtype, const Array& shape) {
  Array part = shape;
  part.dtype = dtype;
  std::int64_t stride = 1;
  for (int i = part.rank; i-- > 0;) {
    part.strides[i] = stride;
    stride *= part.extents[i];
  }
  const std::int64_t begin = used_;
  used_ += bytes(dtype, part.size());
  if (used_ > bytes_) throw InternalError("the parts of a workspace are larger than the workspace");
  const auto base =
      (reinterpret_cast<std::uintptr_t>(memory_.data()) + alignment - 1) / alignment * alignment;
  part.data = reinterpret_cast<void*>(base + static_cast<std::uintptr_t>(begin));
  return Output(part);
}

} // namespace kiln::ops::detail
