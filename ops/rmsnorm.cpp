// Implements root-mean-square normalisation, with one kernel for rows that fit a tile and one for any rows.
#include <kiln/ops/norm.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/narrow_rows.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/dims.h>

namespace kiln::ops {
namespace {

template <class T>
void check_extents(const View<const T, 2>& x, const View<const T, 1>& gamma, const View<T, 2>& y) {
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(x.cols() == y.cols(), "x's columns and y's columns");
  expects(gamma.size() == x.cols(), "gamma's size and x's columns");
}

template <class T, class A = detail::Accumulator<T>>
void rmsnorm_body(View<const T, 2> x, View<const T, 1> gamma, View<T, 2> y, Scalar<A> eps) {
  check_extents(x, gamma, y);
  expects(x.cols() <= dim_size(BN), "x's columns and BN, which must cover them");
  auto [row] = program_tile(x, BM);
  auto col = offset(BN, 0);
  Tile t = cast<A>(x.tile(row, col).load()); // elements beyond the row are zero, so the sum needs no mask
  Tile scale = rsqrt(sum(t * t, BN, keep) / cast<A>(x.cols()) + eps);
  y.tile(row, col).store(cast<T>(t * scale * cast<A>(gamma.tile(col).load())));
}

// For narrow rows: takes the transposed matrices, so that the elements of a vector are of as many rows.
template <class T, class A = detail::Accumulator<T>>
void rmsnorm_narrow_body(View<const T, 2> x, View<const T, 1> gamma, View<T, 2> y, Scalar<A> eps) {
  detail::expect_narrow(x, y);
  expects(gamma.size() == x.rows(), "gamma's size and x's columns");
  auto [col, row] = program_tile(x, BN, BM);
  Tile t = cast<A>(x.tile(col, row).load());
  Tile scale = rsqrt(sum(t * t, BN, keep) / cast<A>(x.rows()) + eps);
  y.tile(col, row).store(cast<T>(t * scale * expand<1>(cast<A>(gamma.tile(col).load()))));
}

template <class T, class A = detail::Accumulator<T>>
void rmsnorm_looped_body(View<const T, 2> x, View<const T, 1> gamma, View<T, 2> y, Scalar<A> eps) {
  check_extents(x, gamma, y);
  auto [row] = program_tile(x, BM);
  auto squares = for_range(BN, x.cols(), zeros<A>(BM, 1_c), [&](auto col, auto squares) {
    Tile t = cast<A>(x.tile(row, col).load());
    return squares + sum(t * t, BN, keep);
  });
  Tile scale = rsqrt(squares / cast<A>(x.cols()) + eps);
  for_range(BN, x.cols(), [&](auto col) {
    Tile t = cast<A>(x.tile(row, col).load());
    y.tile(row, col).store(cast<T>(t * scale * cast<A>(gamma.tile(col).load())));
  });
}

} // namespace

template <class T> const RmsnormKernel<T>& rmsnorm_kernel() {
  static const auto& made = *new RmsnormKernel<T>(
      kernel("rmsnorm", [](View<const T, 2> x, View<const T, 1> gamma, View<T, 2> y,
                           Scalar<detail::Accumulator<T>> eps) { rmsnorm_body<T>(x, gamma, y, eps); }));
  return made;
}
template <class T> const RmsnormKernel<T>& rmsnorm_looped_kernel() {
  static const auto& made =
      *new RmsnormKernel<T>(kernel("rmsnorm_looped", [](View<const T, 2> x, View<const T, 1> gamma,
                                                        View<T, 2> y, Scalar<detail::Accumulator<T>> eps) {
        rmsnorm_looped_body<T>(x, gamma, y, eps);
      }));
  return made;
}

namespace {
template <class T> const RmsnormKernel<T>& rmsnorm_narrow_kernel() {
  static const auto& made =
      *new RmsnormKernel<T>(kernel("rmsnorm_narrow", [](View<const T, 2> x, View<const T, 1> gamma,
                                                        View<T, 2> y, Scalar<detail::Accumulator<T>> eps) {
        rmsnorm_narrow_body<T>(x, gamma, y, eps);
      }));
  return made;
}

template <class T>
void launch_rmsnorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,
                    TensorView<T, 2> y, NormOptions options) {
  detail::Checks check("ops::rmsnorm", stream);
  check.equal("x's rows and y's rows", x.rows(), y.rows());
  check.equal("x's columns and y's columns", x.cols(), y.cols());
  check.equal("gamma's size and x's columns", gamma.size(), x.cols());
  check.writes({"y", y});
  check.apart_or_same({"y", y}, {"x", x});
  check.apart({"y", y}, {"gamma", gamma});
  using A = detail::Accumulator<T>;
  if (const auto narrow = detail::narrow_config(stream.stream.device(), x, y))
    return rmsnorm_narrow_kernel<T>().launch(stream, *narrow, x.transpose(), gamma, y.transpose(),
                                             static_cast<A>(options.eps));
  auto c = detail::row_config(stream.stream.device(), x.rows(), x.cols(), sizeof(A), detail::rows_of_line(x));
  (c.whole ? rmsnorm_kernel<T>() : rmsnorm_looped_kernel<T>())
      .launch(stream, c.config, x, gamma, y, static_cast<A>(options.eps));
}
} // namespace

#define KILN_OPS_RMSNORM(T)                                                                                  \
  template KILN_API_INSTANCE const RmsnormKernel<T>& rmsnorm_kernel<T>();                                    \
  template KILN_API_INSTANCE const RmsnormKernel<T>& rmsnorm_looped_kernel<T>();                             \
  void rmsnorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,              \
               TensorView<T, 2> y, NormOptions options) {                                                    \
    launch_rmsnorm(stream, x, gamma, y, options);                                                            \
  }
KILN_OPS_ELEMENTS(KILN_OPS_RMSNORM)

namespace {

const cli::KernelRegistration registered_rmsnorm({
    .name = "rmsnorm",
    .summary = "root-mean-square normalisation of rows that fit a tile, f32",
    .record = [](const Config& config) { return rmsnorm_kernel<float>().record(config); },
    .config = "BM=1,BN=4096",
    .sizes = "M=4096,N=4096",
    .parameters = "x=M,N gamma=N y=M,N eps=0.00001",
});

} // namespace
} // namespace kiln::ops
