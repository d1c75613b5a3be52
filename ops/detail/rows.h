// What the kernels on rows (softmax, norms) share: where a program's rows are, and how they are launched.
//
// Arrays whose outer axes merge to one are matrices. For all others there are kernels of rank 8, whose
// programs compute the indices of their rows from a linear index.
#pragma once

#include <kiln/ops/detail/axes.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/dims.h>

#include <utility>

namespace kiln::ops::detail {

// The rows of one program, or of one of the tiles that a program takes one after the other. `Rank` is 2 or 8.
template <int Rank> struct ProgramRows;

template <> struct ProgramRows<2> {
  Offset<BM> row;

  template <class A> static ProgramRows of(const ErasedView<A, 2>& x) {
    auto [row] = program_tile(x.view(), BM);
    return {row};
  }
  // The rows of the tile with this number.
  template <class A> static ProgramRows at(const ErasedView<A, 2>&, const Scalar<std::int64_t>& tile) {
    return {tile * BM};
  }
  template <class A, class C> auto tile(const ErasedView<A, 2>& x, const C& col) const {
    return x.tile(row, col);
  }
};

// The tile has BM rows along the last outer axis. The grid has one axis.
template <> struct ProgramRows<8> {
  Scalar<std::int64_t> index[6];
  Offset<BM> row;

  template <class A> static ProgramRows of(const ErasedView<A, 8>& x) { return at(x, program_id(0)); }
  template <class A> static ProgramRows at(const ErasedView<A, 8>& x, const Scalar<std::int64_t>& tile) {
    Scalar<std::int64_t> tiles = cdiv(x.extent(6), BM), rest = tile;
    Offset<BM> row = offset(BM, rest % tiles * BM);
    rest = rest / tiles;
    ProgramRows rows{{rest, rest, rest, rest, rest, rest}, row};
    for (int axis = 5; axis >= 0; --axis) {
      rows.index[axis] = rest % x.extent(axis);
      rest = rest / x.extent(axis);
    }
    return rows;
  }
  template <class A, class C> auto tile(const ErasedView<A, 8>& x, const C& col) const {
    return x.tile(index[0], index[1], index[2], index[3], index[4], index[5], row, col);
  }
};

// Merges the outer axes of arrays with equal extents. Returns whether they are matrices now; otherwise they
// have rank 8, and a log line says that the op named takes the slower path.
bool merge_rows(const char* op, std::initializer_list<Array*> arrays);
// The config and the grid of a kernel of rank 8.
Config strided_config(const StreamAt& at, const Array& x, DType compute);
Grid strided_grid(const Array& x, const Config& config);

} // namespace kiln::ops::detail
