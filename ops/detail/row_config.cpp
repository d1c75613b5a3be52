// Contains the heuristics for the tile sizes of kernels on rows.
#include <kiln/ops/detail/row_config.h>

#include <kiln/jit/cpu/tuning.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <string_view>

namespace kiln::ops::detail {
namespace {

// Rounds up to one of 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, ... This adds less than a quarter to a
// width above 64, and there are few enough results that a kernel is not compiled for each width.
std::int64_t next_width(std::int64_t n) {
  std::int64_t step = 16;
  while (step * 8 < n)
    step *= 2;
  return std::max<std::int64_t>(16, (n + step - 1) / step * step);
}

// Heuristic for CPUs: a row is one tile if the caches keep it, and short rows share a program. Programs read
// whole lines of a transposed matrix, so that their rows are those of a line. The sizes and their
// measurements are in tuning/ops.h.
RowConfig cpu_row_config(Device device, std::int64_t rows, std::int64_t columns, std::int64_t bytes,
                         std::int64_t line_rows) {
  namespace tuning = cpu::tuning;
  const bool from_memory = rows > tuning::reused_bytes(device.properties().l3_bytes) /
                                      (bytes * std::max<std::int64_t>(columns, 1));
  const std::int64_t program_bytes = from_memory ? tuning::rows_from_memory_bytes : tuning::cached_rows_bytes;
  std::int64_t width = next_width(columns);
  RowConfig c;
  c.whole =
      width * bytes * line_rows <= (line_rows > 1 ? tuning::whole_transposed_bytes : tuning::whole_row_bytes);
  if (!c.whole)
    width = (line_rows > 1 ? tuning::transposed_part_bytes / line_rows : tuning::row_part_bytes) / bytes;
  std::int64_t height = line_rows;
  while (height < tuning::max_rows_of_program && height * 2 * width * bytes <= program_bytes && height < rows)
    height *= 2;
  c.config = {BM = height, BN = width};
  return c;
}

// Heuristic for GPUs, which is not measured yet. Each thread has eight elements, which are two 16-byte
// accesses for floats and leave enough registers for many resident blocks. A block has 128 to 512 threads,
// and narrow rows share a block. Rows of up to 32 KiB stay in registers; longer rows are read again in parts
// of 4096 elements. Widths are powers of two, to which the elements of a thread are padded in any case.
RowConfig gpu_row_config(std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
  constexpr std::int64_t whole_bytes = 32 << 10, part = 4096, a_thread = 8, least = 128, most = 512;
  std::int64_t width = 16;
  while (width < columns && width * bytes <= whole_bytes)
    width *= 2;
  RowConfig c;
  c.whole = width * bytes <= whole_bytes;
  if (!c.whole) width = part;
  std::int64_t height = 1;
  while (height < 16 && height < rows && 2 * height * width <= least * a_thread)
    height *= 2;
  const std::int64_t threads = std::clamp(height * width / a_thread, least, most);
  c.config = {BM = height, BN = width, num_warps = threads / 32};
  return c;
}

} // namespace

RowConfig row_config(Device device, std::int64_t rows, std::int64_t columns, std::int64_t bytes,
                     std::int64_t line_rows) {
  return device.is_cpu() ? cpu_row_config(device, rows, columns, bytes, line_rows)
                         : gpu_row_config(rows, columns, bytes);
}

std::int64_t rows_of_line(const Array& x) {
  constexpr std::int64_t line_bytes = 64;
  const bool transposed = x.rank == 2 && x.extents[1] > 1 && x.strides[0] == 1 && x.strides[1] != 1;
  return transposed ? std::max<std::int64_t>(line_bytes / size_of(x.dtype), 1) : 1;
}

Config without_whole(const Config& config) {
  Config rest;
  for (const Binding& b : config)
    if (std::string_view(b.name) != whole_knob) rest.set(b);
  return rest;
}

} // namespace kiln::ops::detail
