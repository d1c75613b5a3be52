// Tile sizes for kernels that work on whole rows.
#include <kiln/ops/detail/row_config.h>

#include <kiln/ops/dims.h>

#include <algorithm>

namespace kiln::ops::detail {
namespace {

// The next of 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, ...: at most an eighth more, and few enough that
// kernels are not compiled for each width.
std::int64_t next_width(std::int64_t n) {
  std::int64_t step = 16;
  while (step * 8 < n)
    step *= 2;
  return std::max<std::int64_t>(16, (n + step - 1) / step * step);
}

} // namespace

// Heuristic: a row is kept in one tile up to 64 KiB, where its second and third use still find it in the
// caches; a longer one is read again in parts of 16 KiB. Short rows share a program, up to 64 KiB: on a Zen 5
// core softmax of 64 x 4096 floats took 44 us with one row a program, 41 with two and 36 with four.
RowConfig row_config(Device, std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
  constexpr std::int64_t whole_bytes = 64 << 10, part_bytes = 16 << 10;
  // One row of 16 KiB a program measured best (4096 x 4096 f32, 2 cores: 48 GB/s, 4 rows 45): the next
  // program's rows are fetched while this one's are computed, and short tiles keep both going at once.
  constexpr std::int64_t program_bytes = 16 << 10;
  std::int64_t width = next_width(columns);
  RowConfig c;
  c.whole = width * bytes <= whole_bytes;
  if (!c.whole) width = part_bytes / bytes;
  std::int64_t height = 1;
  while (height < 16 && height * 2 * width * bytes <= program_bytes && height < rows)
    height *= 2;
  c.config = {BM = height, BN = width};
  return c;
}

} // namespace kiln::ops::detail
