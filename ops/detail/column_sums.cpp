// Implements the sums of columns with one kernel, which adds up parts of the rows of a batch.
#include <kiln/ops/detail/column_sums.h>

#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/detail/workspace.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <array>

namespace kiln::ops::detail {
namespace {

constexpr std::uint32_t adds = 1;               // an option of the kernel
constexpr std::int64_t tile_rows = least_group; // which divides the rows of a group

// x [batches, rows, columns], out [batches, groups, columns], and the number of rows of a group. A program
// adds the rows of one group in order.
void column_sums_body(const OpVariant& v, const Handle* arguments) {
  with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 3> x(arguments[0]), out(arguments[1]);
    const Scalar<std::int64_t> rows(arguments[2]);
    expects(x.extent(0) == out.extent(0), "x's batches and the sums'");
    expects(x.extent(2) == out.extent(2), "x's columns and the sums'");
    auto [batch, group, col] = program_tile(out.view(), each, each, BN);
    Scalar<std::int64_t> first = group * rows, last = min(first + rows, x.extent(1));
    auto total =
        for_range(BM, range(first, last), zeros<A>(BN), [&, batch = batch, col = col](auto row, auto total) {
          return total + sum(x.tile(batch, row, col).load(), BM);
        });
    const auto place = out.tile(batch, group, col);
    place.store(v.options & adds ? Tile(total + place.load()) : Tile(total));
  });
}

constinit const OpKernel column_sums_kernel("column_sums", column_sums_body);

// A heuristic, which is not measured: rows of up to 1 KiB, so that the sums stay in registers or in L1.
Config config_for(Device device, std::int64_t columns) {
  const std::int64_t most = device.is_cpu() ? 256 : 128;
  std::int64_t width = 16;
  while (width < columns && width < most)
    width *= 2;
  Config c{BM = tile_rows, BN = width};
  if (!device.is_cpu()) c.set(num_warps = 4);
  return c;
}

struct ColumnSums {
  Array x, out;
  OpVariant variant;
  std::int64_t rows; // of a group
  std::int64_t first_batch = 0;

  std::array<Array*, 2> batched() { return {&x, &out}; }
};

void launch(const StreamAt& at, const ColumnSums& c) {
  column_sums_kernel.launch(at, config_for(at.stream.device(), c.x.extents[2]), c.variant,
                            {c.x, c.out, c.rows});
}

} // namespace

RowGroups row_groups(Device device, std::int64_t rows, std::int64_t unit) {
  const std::int64_t most = (device.is_cpu() ? 128 : 512) * unit,
                     size = std::max<std::int64_t>((rows + most - 1) / most, 1) * unit;
  return {(rows + size - 1) / size, size};
}

void sum_groups(const StreamAt& at, const Array& groups, const Array& out, Store store) {
  Array x = groups, y = out;
  pad_rank(x, 3);
  pad_rank(y, 3);
  const OpVariant variant{compute_dtype({&x, &y}), store == Store::add ? adds : 0};
  launch(at, {x, y, variant, x.extents[1]});
}

void sum_columns(const StreamAt& at, const char* op, const Array& x, const Array& out, Store store) {
  const std::int64_t columns = out.extents[0];
  if (columns == 0) return;
  Array rows = x;
  if (x.size() == 0) {
    rows.rank = 2;
    rows.extents[0] = 0, rows.extents[1] = columns;
    rows.strides[0] = 0, rows.strides[1] = 1;
    return sum_groups(at, rows, out, store);
  }
  merge_outer({&rows}, 1);
  const std::int64_t height = rows.extents[rows.rank - 2], batches = rows.size() / (height * columns);
  const RowGroups groups = row_groups(at.stream.device(), height, tile_rows);
  if (batches * groups.count == 1) return sum_groups(at, rows, out, store);

  const OpVariant variant{compute_dtype({&x, &out}), 0};
  Workspace workspace(at, Workspace::bytes(variant.compute, batches * groups.count * columns));
  merge_batches(op, {&rows}, 2, MergeOrder::as_given);
  Array shape = rows;
  shape.extents[rows.rank - 2] = groups.count;
  ColumnSums call{rows, workspace.take_like(variant.compute, shape).array(), variant, groups.size};
  launch_batches(call, 2, [&](const ColumnSums& part) { launch(at, part); });
  Array sums = call.out;
  merge_outer({&sums}, 1);
  sum_groups(at, sums, out, store);
  workspace.free();
}

} // namespace kiln::ops::detail
