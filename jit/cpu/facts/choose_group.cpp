// Chooses how many programs share a product.
#include <kiln/jit/cpu/facts/grouped_product.h>

#include <algorithm>
#include <cmath>

namespace kiln::cpu {

namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

// The sizes that are tried along an axis: equal parts of the grid, also as many as threads or a multiple, and
// the limit divided by powers of two.
struct Candidates {
  std::array<std::int64_t, 32> values{};
  std::size_t count = 0;

  Candidates(std::int64_t grid, std::int64_t most, std::int64_t threads) {
    most = std::min(most, grid);
    const std::int64_t parts = blocks(grid, most);
    for (std::int64_t p : {parts, parts + 1, 2 * parts, 4 * parts, threads, 2 * threads, 4 * threads})
      if (p >= parts) add(blocks(grid, p));
    for (std::int64_t value = most; value >= 1 && count < values.size(); value /= 2)
      add(value);
  }
  void add(std::int64_t value) {
    if (value >= 1 && std::find(values.begin(), values.begin() + count, value) == values.begin() + count)
      values[count++] = value;
  }
};

// The share of the busiest thread in `all` elements, in groups of `of_group` elements. It is at most an equal
// share plus what one group adds, since the last groups are smaller.
double busiest_share(double all, double of_group, double groups, int threads) {
  return std::min(std::ceil(groups / threads) * of_group, (all + of_group * (threads - 1)) / threads);
}

// Chooses the number of consecutive programs of a group, as if they formed a square of tiles.
std::array<std::int64_t, 8> choose_consecutive(const Grouping& grouping,
                                               std::span<const std::int64_t, 8> grid, int threads) {
  std::array<std::int64_t, 8> group;
  group.fill(1);
  const auto axis = static_cast<std::size_t>(grouping.computed_axis);
  double programs = 1;
  for (std::int64_t extent : grid)
    programs *= static_cast<double>(extent);
  const Candidates sizes(grid[axis], grouping.most_programs, threads);
  double best = 0;
  for (std::size_t i = 0; i < sizes.count; ++i) {
    const auto size = static_cast<double>(sizes.values[i]), side = std::sqrt(size);
    const double groups =
        programs / static_cast<double>(grid[axis]) * static_cast<double>(blocks(grid[axis], sizes.values[i]));
    const double packing = grouping.packing_b / (side * static_cast<double>(grouping.tile_m)) +
                           grouping.packing_a / (side * static_cast<double>(grouping.tile_n));
    const double cost = busiest_share(programs, size, groups, threads) * (1 + packing);
    if (best == 0 || cost < best) best = cost, group[axis] = sizes.values[i];
  }
  return group;
}

// K of the product; 0 if it is unknown.
double depth_of(const Grouping& grouping, const std::uint64_t* arguments) {
  const bool known = grouping.depth_word >= 0 && arguments;
  return static_cast<double>(known ? static_cast<std::int64_t>(arguments[grouping.depth_word])
                                   : grouping.depth);
}

// The number of rows of a group whose next columns another thread stores. The stores of such a row also fetch
// the next cache lines, which the other thread writes: on a Granite Rapids this costs some 30 ns a row, a
// fifth of the time that two threads take for 512 cubed of i8. Groups are in row-major order, and each thread
// has equally many consecutive ones.
double shared_rows(double rows, double groups_m, double groups_n, int threads) {
  const bool shared = groups_n > 1 && threads > 1 && std::fmod(groups_m, threads) != 0;
  return shared ? rows : 0;
}

} // namespace

// The cost of a group is that of its elements, plus packing its columns of B, which is amortised over its
// rows, plus reading its rows of A, which is amortised over its columns. 1 + 14 / rows + 2 / columns agrees
// with measurements of tiles of 64 to 512 rows of a product of 2048 cubed on AVX-512, where A is not packed.
// The groups of the busiest thread count.
std::array<std::int64_t, 8> choose_group(const Grouping& grouping, std::span<const std::int64_t, 8> grid,
                                         int threads, const std::uint64_t* arguments) {
  std::array<std::int64_t, 8> group;
  group.fill(1);
  if (!grouping.has_groups()) return group;
  if (grouping.computed_axis >= 0) return choose_consecutive(grouping, grid, threads);
  const std::int64_t grid_m = grouping.m_axis >= 0 ? grid[static_cast<std::size_t>(grouping.m_axis)] : 1;
  const std::int64_t grid_n = grouping.n_axis >= 0 ? grid[static_cast<std::size_t>(grouping.n_axis)] : 1;
  const Candidates ms(grid_m, grouping.most_m, threads), ns(grid_n, grouping.most_n, threads);
  const auto all_rows = static_cast<double>(grid_m * grouping.tile_m);
  const auto all_columns = static_cast<double>(grid_n * grouping.tile_n);
  const double depth = depth_of(grouping, arguments);
  const double shared_row_cost = depth > 0 ? grouping.shared_row_cost / depth : 0; // per row, in elements
  double best = 0;
  std::int64_t best_m = 1, best_n = 1;
  for (std::size_t i = 0; i < ms.count; ++i)
    for (std::size_t j = 0; j < ns.count; ++j) {
      const std::int64_t gm = ms.values[i], gn = ns.values[j];
      if (gm * gn > grouping.most_programs) continue;
      const double elements =
          static_cast<double>(gm * grouping.tile_m) * static_cast<double>(gn * grouping.tile_n);
      const auto groups_m = static_cast<double>(blocks(grid_m, gm));
      const auto groups_n = static_cast<double>(blocks(grid_n, gn));
      const double busiest = busiest_share(all_rows * all_columns, elements, groups_m * groups_n, threads);
      const double cost = busiest * (1 + grouping.packing_b * groups_m / all_rows +
                                     grouping.packing_a * groups_n / all_columns) +
                          shared_row_cost * shared_rows(static_cast<double>(gm * grouping.tile_m), groups_m,
                                                        groups_n, threads);
      if (best == 0 || cost < best) best = cost, best_m = gm, best_n = gn;
    }
  if (grouping.m_axis >= 0) group[static_cast<std::size_t>(grouping.m_axis)] = best_m;
  if (grouping.n_axis >= 0) group[static_cast<std::size_t>(grouping.n_axis)] = best_n;
  return group;
}

} // namespace kiln::cpu
