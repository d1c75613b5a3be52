// Defines Workspace, the memory for the intermediate results of one call of an op.
//
//   Workspace workspace(at, Workspace::bytes(DType::F32, rows * n) + Workspace::bytes(DType::F32, rows));
//   const Output partial = workspace.take(DType::F32, {rows, n}), largest = workspace.take(DType::F32, {rows});
//   ...                                  // launch kernels that use them on the same stream
//   workspace.free();                    // last; after an exception, the destructor does it
//
// It is allocated and freed in the order of the stream (jit/runtime/stream_memory.h), so that calls in a row
// use the same memory. Its contents are undefined. A warm call does not allocate on the heap.
#pragma once

#include <kiln/jit/runtime/stream_memory.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

#include <initializer_list>

namespace kiln::ops::detail {

class Workspace {
public:
  // UserError if there is no memory.
  Workspace(const StreamAt& at, std::int64_t bytes);

  // What `elements` elements of one `take` need, in bytes.
  static std::int64_t bytes(DType dtype, std::int64_t elements);
  // The next part, contiguous and aligned to 256 bytes.
  Output take(DType dtype, std::initializer_list<std::int64_t> extents);
  Output take_like(DType dtype, const Array& shape); // with the same extents
  void free() { memory_.free(); }

private:
  StreamMemory memory_;
  std::int64_t bytes_, used_ = 0;
};

} // namespace kiln::ops::detail
