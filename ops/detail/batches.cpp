// Merges batch axes, and says where they do not merge.
#include <kiln/ops/detail/batches.h>

#include <kiln/jit/runtime/rehearsing.h>

#include <string>

namespace kiln::ops::detail {

int merge_batches(const char* op, std::initializer_list<Array*> arrays, int kept, MergeOrder order) {
  const int outer = merge_outer(arrays, kept, order);
  if (outer > 1 && kiln::detail::notes_paths())
    kiln::detail::note_path(std::string(op) +
                            ": the batch axes of these strides do not merge to one, so that there is a "
                            "launch for each index of the others; contiguous tensors are faster");
  return outer;
}

} // namespace kiln::ops::detail
