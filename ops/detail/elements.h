// What kernels share that compute element by element, but need more than `assign` has: several results, or
// the number of an element.
//
// Arrays whose axes merge to one or two are matrices. For all others there are kernels of rank 8, which
// compute the indices of their rows from a linear index.
#pragma once

#include <kiln/ops/detail/rows.h>

#include <optional>

namespace kiln::ops::detail {

// How elements are numbered: element (row, column) has the number first + row * row_step + column *
// column_step, where rows are counted in row-major order of all axes but the last. No column_step means 1.
struct ElementNumbers {
  Scalar<std::int64_t> first, row_step;
  std::optional<Scalar<std::int64_t>> column_step;
};

// The elements that a tile of a program has. `Rank` is 2 or 8.
template <int Rank> struct ElementTile {
  ProgramRows<Rank> rows;
  Offset<BN> col;

  template <class A> auto of(const ErasedView<A, Rank>& x) const { return rows.tile(x, col); }
  // The numbers of the elements, as i64.
  template <class A> auto numbers(const ErasedView<A, Rank>& x, const ElementNumbers& by) const {
    Tile row = expand<1>(rows.row + arange(BM));
    if constexpr (Rank == 8) {
      Scalar<std::int64_t> outer = rows.index[0];
      for (int axis = 1; axis < 6; ++axis)
        outer = outer * x.extent(axis) + rows.index[axis];
      row = row + outer * x.extent(6);
    }
    Tile column = expand<0>(col + arange(BN));
    if (by.column_step) column = column * *by.column_step;
    Tile number = (by.first + row * by.row_step) + column;
    return number;
  }
};

// Calls body(tile) for the tiles of a program, which together cover x.
template <int Rank, class A, class F> void each_element_tile(const ErasedView<A, Rank>& x, const F& body) {
  if constexpr (Rank == 2) {
    auto [row, col] = program_tile(x.view(), BM, BN);
    body(ElementTile<2>{{row}, col});
  } else {
    const auto rows = ProgramRows<8>::of(x);
    for_range(BN, x.cols(), [&](auto col) { body(ElementTile<8>{rows, col}); });
  }
}

// The two kernels of an op. The order `as_given` keeps the numbers of the elements.
struct ElementLaunch {
  const char* op;
  const char* tunable; // the name in `kiln tune` of the kernel for matrices
  const OpKernel &matrices, &strided;
  MergeOrder order;
};
// Merges the axes of the arrays. Returns whether they are matrices.
bool merge_elements(const ElementLaunch& of, std::initializer_list<Array*> arrays);
// Launches the kernel for arrays that were merged; `first` is one of them.
void launch_elements(const ElementLaunch& of, const StreamAt& at, bool matrices, const Array& first,
                     const OpVariant& variant, const OpArguments& list);

} // namespace kiln::ops::detail
