// Tile sizes for kernels that work on whole rows.
#include <kiln/ops/detail/row_config.h>

#include <kiln/jit/base/cpu_info.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <string_view>

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

// Heuristic: a row is kept in one tile up to 512 KiB, where its second and third use still find it in the
// caches; a longer one is read again in parts of 16 KiB, and softmax then computes its exponentials twice (on
// a Zen 5 core, ns an element whole and in parts: rows of 32768 floats in the cache 0.14 and 0.19, from
// memory 0.21 and 0.25; of 131072 from memory 0.23 and 0.26, in the cache the same). Short rows share a
// program: in the cache 5 % faster at 1024 floats. What comes from memory is fetched while the program before
// computes, and short tiles keep both going at once: softmax of 1024 floats a row ran at 44 GB/s with one row
// a program, 35 with four or 16.
RowConfig cpu_row_config(Device device, std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
  constexpr std::int64_t whole_bytes = 512 << 10, part_bytes = 16 << 10;
  const bool from_memory =
      rows > reused_bytes(device.properties().l3_bytes) / (bytes * std::max<std::int64_t>(columns, 1));
  const std::int64_t program_bytes = from_memory ? 2 << 10 : 16 << 10;
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

// Heuristic for GPUs, not yet measured on one: eight elements a thread, which are two 16-byte accesses of
// floats and leave the registers to many blocks, 128 threads at least (narrow rows share a block) and 512 at
// most. Rows of up to 32 KiB stay in registers; longer ones are read again in parts of 4096 elements. Widths
// are powers of two, as a thread's share of a tile is anyway.
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

RowConfig row_config(Device device, std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
  return device.is_cpu() ? cpu_row_config(device, rows, columns, bytes)
                         : gpu_row_config(rows, columns, bytes);
}

Config without_whole(const Config& config) {
  Config rest;
  for (const Binding& b : config)
    if (std::string_view(b.name) != whole_knob) rest.set(b);
  return rest;
}

} // namespace kiln::ops::detail
