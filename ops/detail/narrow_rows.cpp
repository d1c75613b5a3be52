// Contains the heuristic for the tile sizes of kernels on narrow rows.
#include <kiln/ops/detail/narrow_rows.h>

#include <kiln/jit/cpu/tuning.h>

#include <algorithm>
#include <bit>

namespace kiln::ops::detail {

std::optional<Config> narrow_config(Device device, std::initializer_list<const Array*> matrices,
                                    bool batch_invariant) {
  namespace tuning = cpu::tuning;
  const std::int64_t rows = (*matrices.begin())->extents[0], columns = (*matrices.begin())->extents[1];
  const bool contiguous =
      std::all_of(matrices.begin(), matrices.end(), [](const Array* a) { return a->strides[1] == 1; });
  if (!device.is_cpu() || columns < 1 || columns > tuning::max_narrow_columns ||
      (rows < tuning::min_narrow_rows && !batch_invariant) || !contiguous)
    return std::nullopt;
  const auto height = std::bit_floor(static_cast<std::uint64_t>(tuning::narrow_rows_elements / columns));
  return Config{BM = static_cast<std::int64_t>(height), BN = columns};
}

} // namespace kiln::ops::detail
