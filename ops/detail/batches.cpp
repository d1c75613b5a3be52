// Merges batch axes, and says where they do not merge.
#include <kiln/ops/detail/batches.h>

#include <kiln/jit/runtime/rehearsing.h>

#include <string>

namespace kiln::ops::detail {

void broadcast_batch(const Checks& check, const Argument& operand, Array& x, const Argument& result) {
  const Array& c = result.array;
  Array batch = x, wanted = c;
  batch.rank -= 2;
  wanted.rank -= 2;
  check.broadcasts({operand.name, batch}, {result.name, wanted}, "the batch axes of ");
  pad_rank(x, c.rank);
  for (int i = 0; i < c.rank - 2; ++i)
    if (x.extents[i] != c.extents[i]) x.extents[i] = c.extents[i], x.strides[i] = 0;
}

int merge_batches(const char* op, std::initializer_list<Array*> arrays, int kept, MergeOrder order) {
  const int outer = merge_outer(arrays, kept, order);
  if (outer > 1 && kiln::detail::notes_paths())
    kiln::detail::note_path(std::string(op) +
                            ": the batch axes of these strides do not merge to one, so that there is a "
                            "launch for each index of the others; contiguous tensors are faster");
  return outer;
}

} // namespace kiln::ops::detail
