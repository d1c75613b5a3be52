// Implements softmax, with one kernel for rows that fit a tile and the online algorithm for wider rows.
#include <kiln/ops/softmax.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/narrow_rows.h>
#include <kiln/ops/dims.h>

#include <cmath>
#include <limits>

namespace kiln::ops {
namespace {

template <class T> void softmax_body(View<const T, 2> x, View<T, 2> y) {
  using A = detail::Accumulator<T>;
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(x.cols() == y.cols(), "x's columns and y's columns");
  expects(x.cols() <= dim_size(BN), "x's columns and BN, which must cover them");
  auto [row] = program_tile(x, BM);
  auto col = offset(BN, 0);
  Tile t = cast<A>(x.tile(row, col).load_or(-INFINITY));
  Tile e = exp(t - max(t, BN, keep));
  y.tile(row, col).store(cast<T>(e * (A(1) / sum(e, BN, keep))));
}

// For narrow rows: takes the transposed matrices, so that the elements of a vector are of as many rows.
template <class T> void softmax_narrow_body(View<const T, 2> x, View<T, 2> y) {
  using A = detail::Accumulator<T>;
  detail::expect_narrow(x, y);
  auto [col, row] = program_tile(x, BN, BM);
  Tile t = cast<A>(x.tile(col, row).load());
  Tile e = exp(t - max(t, BN, keep));
  y.tile(col, row).store(cast<T>(e * (A(1) / sum(e, BN, keep))));
}

// This is the algorithm of Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv
// 1805.02867): when a part of the row has a larger maximum, the sum so far is scaled to it. As long as the
// maximum is -infinity, `shift` is 0, because -infinity - -infinity would be NaN.
template <class T> void softmax_looped_body(View<const T, 2> x, View<T, 2> y) {
  using A = detail::Accumulator<T>;
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(x.cols() == y.cols(), "x's columns and y's columns");
  auto [row] = program_tile(x, BM);
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  auto [most, total] = for_range(
      BN, x.cols(), state(full(lowest, BM, 1_c), zeros<A>(BM, 1_c)), [&](auto col, auto most, auto total) {
        Tile t = cast<A>(x.tile(row, col).load_or(-INFINITY));
        Tile next = max(most, max(t, BN, keep));
        Tile shift = where(next == lowest, A(0), next);
        return state(next, total * exp(most - shift) + sum(exp(t - shift), BN, keep));
      });
  Tile scale = A(1) / total;
  for_range(BN, x.cols(), [&](auto col) {
    Tile t = cast<A>(x.tile(row, col).load());
    y.tile(row, col).store(cast<T>(exp(t - most) * scale));
  });
}

} // namespace

template <class T> const SoftmaxKernel<T>& softmax_kernel() {
  static const auto& made = *new SoftmaxKernel<T>(
      kernel("softmax", [](View<const T, 2> x, View<T, 2> y) { softmax_body<T>(x, y); }));
  return made;
}
template <class T> const SoftmaxKernel<T>& softmax_looped_kernel() {
  static const auto& made = *new SoftmaxKernel<T>(
      kernel("softmax_looped", [](View<const T, 2> x, View<T, 2> y) { softmax_looped_body<T>(x, y); }));
  return made;
}

namespace {
template <class T> const SoftmaxKernel<T>& softmax_narrow_kernel() {
  static const auto& made = *new SoftmaxKernel<T>(
      kernel("softmax_narrow", [](View<const T, 2> x, View<T, 2> y) { softmax_narrow_body<T>(x, y); }));
  return made;
}

template <class T>
void launch_softmax(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y) {
  detail::Checks check("ops::softmax", stream);
  check.equal("x's rows and y's rows", x.rows(), y.rows());
  check.equal("x's columns and y's columns", x.cols(), y.cols());
  check.writes({"y", y});
  check.apart_or_same({"y", y}, {"x", x});
  if (const auto narrow = detail::narrow_config(stream.stream.device(), x, y))
    return softmax_narrow_kernel<T>().launch(stream, *narrow, x.transpose(), y.transpose());
  auto c = detail::known_row_config("softmax", dtype_of<T>, stream, x.rows(), x.cols(),
                                    sizeof(detail::Accumulator<T>), {x, y});
  (c.whole ? softmax_kernel<T>() : softmax_looped_kernel<T>()).launch(stream, c.config, x, y);
}
} // namespace

#define KILN_OPS_SOFTMAX(T)                                                                                  \
  template KILN_API_INSTANCE const SoftmaxKernel<T>& softmax_kernel<T>();                                    \
  template KILN_API_INSTANCE const SoftmaxKernel<T>& softmax_looped_kernel<T>();                             \
  void softmax(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y) {                      \
    launch_softmax(stream, x, y);                                                                            \
  }
KILN_OPS_ELEMENTS(KILN_OPS_SOFTMAX)

namespace {

const cli::KernelRegistration registered_softmax({
    .name = "softmax",
    .summary = "softmax of rows that fit a tile, f32",
    .record = [](const Config& config) { return softmax_kernel<float>().record(config); },
    .config = "BM=1,BN=4096",
    .sizes = "M=4096,N=4096",
    .parameters = "x=M,N y=M,N",
});
const cli::KernelRegistration registered_softmax_looped({
    .name = "softmax_looped",
    .summary = "softmax of rows of any width, f32",
    .record = [](const Config& config) { return softmax_looped_kernel<float>().record(config); },
    .config = "BM=1,BN=4096",
    .sizes = "M=512,N=128256",
    .parameters = "x=M,N y=M,N",
});

} // namespace
} // namespace kiln::ops
