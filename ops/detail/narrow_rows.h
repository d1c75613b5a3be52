// Chooses tile sizes for kernels on narrow rows, whose vectors hold elements of as many rows.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/dims.h>

#include <optional>

namespace kiln::ops::detail {

// BM and BN for kernels that take the transposed matrices, or none if the rows are long enough for vectors of
// their own, if there are few of them, if they are not contiguous, or if the device is no CPU.
// With `batch_invariant`, few rows are no exception.
std::optional<Config> narrow_config(Device device, std::initializer_list<const Array*> matrices,
                                    bool batch_invariant);

// The expectations of such a kernel about its transposed matrices: one tile has all elements of a row.
template <class A> void expect_narrow(const ErasedView<A, 2>& x, const ErasedView<A, 2>& y) {
  expects(x.cols() == y.cols(), "x's rows and y's rows");
  expects(x.rows() == y.rows(), "x's columns and y's columns");
  expects(x.rows() == dim_size(BN), "x's columns and BN");
}

} // namespace kiln::ops::detail
