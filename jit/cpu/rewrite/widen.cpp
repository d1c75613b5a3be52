// cpu-widen: binds as the pass bind does, with the sizes that widened_config chooses for one thread.
//
//  1. The kernel is as it was recorded. Only sizes of program_tile that are free change
//     (facts/program_tiles.h).
//  2. In a kernel without loops and reductions, these are the sizes of axes that lie along rows of a view and
//     are below narrow_tile_columns (tuning.h). Where two axes lie along rows, as in a transposition, both
//     grow up to transposed_tile_side. No tile gets more than max_widened_elements elements or needs scratch
//     memory.
//  3. In a kernel with loops, these are the sizes of axes that lie along rows of views of two or more axes,
//     and along no other axis of a view. A tile in scratch memory has at most max_loop_buffer_elements
//     elements.
//  4. A kernel with reductions and without loops stays: its programs have whole rows.
//  5. A config that bind rejects stays, so that the message names the user's sizes.
#include <kiln/jit/cpu/rewrite/widen.h>

#include <kiln/jit/cpu/facts/plan.h>
#include <kiln/jit/cpu/facts/program_tiles.h>
#include <kiln/jit/cpu/rewrite/passes.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <bit>

namespace kiln::cpu {

namespace {

// The number of columns that a program should have whose loop runs down columns: long pieces of rows, but few
// enough that all threads have a program. The extents are not known yet, so this is a guess from the number
// of threads.
std::int64_t more_columns(std::int64_t columns, int threads) {
  const auto share =
      std::bit_floor(static_cast<std::uint64_t>(tuning::loop_columns_of_all_threads / std::max(threads, 1)));
  return std::max(columns, std::clamp(static_cast<std::int64_t>(share), tuning::min_loop_columns,
                                      tuning::max_loop_columns));
}

Config widened_for_loops(const ProgramTiles& tiles, const Config& config, int threads) {
  Config chosen = config;
  for (const TileDimension& d : tiles.dimensions) {
    const auto size = config.get(d.name);
    if (d.free && d.columns && !d.rows && size && *size > 0) chosen.set(d.name, more_columns(*size, threads));
  }
  return chosen;
}

Config widened_elementwise(const ProgramTiles& tiles, const Config& config) {
  std::int64_t elements = 1;
  for (const TileDimension& d : tiles.dimensions) {
    const auto size = config.get(d.name);
    if (!size || *size <= 0 || *size > tuning::max_widened_elements ||
        (elements *= *size) > tuning::max_widened_elements)
      return config;
  }
  const auto along_rows = [](const TileDimension& d) { return d.along_rows; };
  const bool square_tiles = std::count_if(tiles.dimensions.begin(), tiles.dimensions.end(), along_rows) > 1;
  Config wider = config;
  for (const TileDimension& d : tiles.dimensions) {
    const std::int64_t size = *config.get(d.name);
    if (!d.free || !d.along_rows ||
        size >= (square_tiles ? tuning::transposed_tile_side : tuning::narrow_tile_columns))
      continue;
    const auto room = static_cast<std::uint64_t>(tuning::max_widened_elements / (elements / size));
    const auto most = std::min(static_cast<std::int64_t>(std::bit_floor(room)),
                               square_tiles ? tuning::transposed_tile_side : tuning::max_widened_columns);
    wider.set(d.name, std::max(size, most));
    elements = elements / size * std::max(size, most);
  }
  return wider;
}

// Whether no tile is too large, and none needs scratch memory: the elements of such a tile are also computed
// where they lie outside of all views. In kernels with loops, tiles in scratch are allowed, but should fit
// the L1 cache.
bool is_suitable(const ir::Kernel& bound, bool loops) {
  const Plan plan(bound);
  bool all = true;
  ir::walk(bound.body, [&](const ir::Op& op) {
    for (const auto& r : op.results) {
      const std::int64_t elements = r->type.is_tile() ? r->type.numel() : 1;
      all &= plan.has_buffer(r.get()) ? loops && elements <= tuning::max_loop_buffer_elements
                                      : loops || elements <= tuning::max_widened_elements;
    }
  });
  return all;
}

} // namespace

Config widened_config(const ir::Kernel& recorded, const passes::PassOptions& options, int threads) {
  if (options.debug) return options.config;
  const ProgramTiles tiles = program_tiles(recorded);
  if (tiles.reduces && !tiles.loops) return options.config; // rule 4
  passes::PassOptions wide = options;
  wide.config = tiles.loops ? widened_for_loops(tiles, options.config, threads)
                            : widened_elementwise(tiles, options.config);
  if (wide.config == options.config) return options.config;
  try {
    return is_suitable(*passes::lower_generic(recorded, wide), tiles.loops) ? wide.config : options.config;
  } catch (const UserError&) { // tiles that are too large now, or rule 5
    return options.config;
  }
}

void bind_widened(ir::Kernel& kernel, const passes::PassOptions& options) {
  passes::PassOptions widened = options;
  widened.config = widened_config(kernel, options, /*threads=*/1);
  passes::bind(kernel, widened);
}

} // namespace kiln::cpu
