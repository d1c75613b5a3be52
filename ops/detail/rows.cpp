// Chooses between the kernels for matrices and those for arrays that are none.
#include <kiln/ops/detail/rows.h>

#include <kiln/jit/runtime/rehearsing.h>

#include <string>

namespace kiln::ops::detail {

bool merge_rows(const char* op, std::initializer_list<Array*> arrays) {
  if (merge_outer(arrays, 1) == 1) return true;
  if (kiln::detail::notes_paths())
    kiln::detail::note_path(std::string(op) +
                            ": the outer axes of these strides do not merge to one, so that rows are found "
                            "by division; contiguous tensors are faster");
  for (Array* a : arrays)
    pad_rank(*a, 8);
  return false;
}

Config strided_config(const StreamAt& at, const Array& x, DType compute) {
  return row_config(at.stream.device(), x.extents[6], x.extents[7], size_of(compute)).config;
}

Grid strided_grid(const Array& x, const Config& config) {
  const std::int64_t rows = config.get("BM").value_or(1);
  std::int64_t programs = (x.extents[6] + rows - 1) / rows;
  for (int axis = 0; axis < 6; ++axis)
    programs *= x.extents[axis];
  return {programs};
}

} // namespace kiln::ops::detail
