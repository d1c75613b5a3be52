// Merges axes for kernels on elements, and chooses their tiles.
#include <kiln/ops/detail/elements.h>

#include <kiln/jit/runtime/rehearsing.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/known_config.h>

#include <string>

namespace kiln::ops::detail {
// A heuristic, which is not measured: tiles of 4096 elements on a CPU, which take 16 KiB for each array, and
// of 8 elements for each thread on a GPU.
Config elements_config(Device device, std::int64_t columns) {
  const std::int64_t elements = device.is_cpu() ? 4096 : 1024;
  std::int64_t width = 16;
  while (width < columns && width < elements)
    width *= 2;
  Config c{BM = elements / width, BN = width};
  if (!device.is_cpu()) c.set(num_warps = 4);
  return c;
}

bool merge_elements(const ElementLaunch& of, std::initializer_list<Array*> arrays) {
  const int rank = merge_outer(arrays, 0, of.order);
  if (rank > 2 && kiln::detail::notes_paths())
    kiln::detail::note_path(std::string(of.op) +
                            ": the axes of these strides do not merge to two, so that rows are found by "
                            "division; contiguous tensors are faster");
  for (Array* a : arrays)
    pad_rank(*a, rank <= 2 ? 2 : 8);
  return rank <= 2;
}

void launch_elements(const ElementLaunch& of, const StreamAt& at, bool matrices, const Array& first,
                     const OpVariant& variant, const OpArguments& list) {
  if (matrices) {
    const std::int64_t rows = first.extents[0], columns = first.extents[1];
    const auto known = known_config(of.tunable, at, {rows, columns}, {of.matrices, variant, list});
    return of.matrices.launch(at, known ? *known : elements_config(at.stream.device(), columns), variant,
                              list);
  }
  const Config config = strided_config(at, first, variant.compute);
  const Grid grid = strided_grid(first, config);
  of.strided.launch(at, config, variant, list, &grid);
}

} // namespace kiln::ops::detail
