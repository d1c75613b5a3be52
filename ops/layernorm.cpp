// Implements layer normalisation, with one kernel for rows that fit a tile and one that loops over parts of a
// row.
#include <kiln/ops/norm.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/narrow_rows.h>
#include <kiln/ops/dims.h>

namespace kiln::ops {
namespace {

template <class T>
void check_extents(const View<const T, 2>& x, const View<const T, 1>& gamma, const View<const T, 1>& beta,
                   const View<T, 2>& y) {
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(x.cols() == y.cols(), "x's columns and y's columns");
  expects(gamma.size() == x.cols(), "gamma's size and x's columns");
  expects(beta.size() == x.cols(), "beta's size and x's columns");
}

template <class T, class A = detail::Accumulator<T>>
void layernorm_body(View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, View<T, 2> y,
                    Scalar<A> eps) {
  check_extents(x, gamma, beta, y);
  expects(x.cols() <= dim_size(BN), "x's columns and BN, which must cover them");
  auto [row] = program_tile(x, BM);
  auto col = offset(BN, 0);
  Scalar<A> count = cast<A>(x.cols());
  Tile t = cast<A>(x.tile(row, col).load());
  Tile mean = sum(t, BN, keep) / count;
  Tile centred = where(col + arange(BN) < x.cols(), t - mean, A(0));
  Tile scale = rsqrt(sum(centred * centred, BN, keep) / count + eps);
  y.tile(row, col).store(
      cast<T>(centred * scale * cast<A>(gamma.tile(col).load()) + cast<A>(beta.tile(col).load())));
}

// For narrow rows: takes the transposed matrices, so that the elements of a vector are of as many rows.
template <class T, class A = detail::Accumulator<T>>
void layernorm_narrow_body(View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, View<T, 2> y,
                           Scalar<A> eps) {
  detail::expect_narrow(x, y);
  expects(gamma.size() == x.rows(), "gamma's size and x's columns");
  expects(beta.size() == x.rows(), "beta's size and x's columns");
  auto [col, row] = program_tile(x, BN, BM);
  Scalar<A> count = cast<A>(x.rows());
  Tile t = cast<A>(x.tile(col, row).load());
  Tile centred = t - sum(t, BN, keep) / count;
  Tile scale = rsqrt(sum(centred * centred, BN, keep) / count + eps);
  y.tile(col, row).store(cast<T>(centred * scale * expand<1>(cast<A>(gamma.tile(col).load())) +
                                 expand<1>(cast<A>(beta.tile(col).load()))));
}

template <class T, class A = detail::Accumulator<T>>
void layernorm_looped_body(View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, View<T, 2> y,
                           Scalar<A> eps) {
  check_extents(x, gamma, beta, y);
  auto [row] = program_tile(x, BM);
  Scalar<A> count = cast<A>(x.cols());
  auto total = for_range(BN, x.cols(), zeros<A>(BM, 1_c), [&](auto col, auto total) {
    return total + sum(cast<A>(x.tile(row, col).load()), BN, keep);
  });
  Tile mean = total / count;
  auto squares = for_range(BN, x.cols(), zeros<A>(BM, 1_c), [&](auto col, auto squares) {
    Tile centred = where(col + arange(BN) < x.cols(), cast<A>(x.tile(row, col).load()) - mean, A(0));
    return squares + sum(centred * centred, BN, keep);
  });
  Tile scale = rsqrt(squares / count + eps);
  for_range(BN, x.cols(), [&](auto col) {
    Tile normal = (cast<A>(x.tile(row, col).load()) - mean) * scale;
    y.tile(row, col).store(
        cast<T>(normal * cast<A>(gamma.tile(col).load()) + cast<A>(beta.tile(col).load())));
  });
}

} // namespace

template <class T> const LayernormKernel<T>& layernorm_kernel() {
  static const auto& made = *new LayernormKernel<T>(kernel(
      "layernorm", [](View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, View<T, 2> y,
                      Scalar<detail::Accumulator<T>> eps) { layernorm_body<T>(x, gamma, beta, y, eps); }));
  return made;
}
template <class T> const LayernormKernel<T>& layernorm_looped_kernel() {
  static const auto& made = *new LayernormKernel<T>(
      kernel("layernorm_looped",
             [](View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, View<T, 2> y,
                Scalar<detail::Accumulator<T>> eps) { layernorm_looped_body<T>(x, gamma, beta, y, eps); }));
  return made;
}

namespace {
template <class T> const LayernormKernel<T>& layernorm_narrow_kernel() {
  static const auto& made = *new LayernormKernel<T>(
      kernel("layernorm_narrow",
             [](View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, View<T, 2> y,
                Scalar<detail::Accumulator<T>> eps) { layernorm_narrow_body<T>(x, gamma, beta, y, eps); }));
  return made;
}

template <class T>
void launch_layernorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,
                      TensorView<const T, 1> beta, TensorView<T, 2> y, NormOptions options) {
  detail::Checks check("ops::layernorm", stream);
  check.equal("x's rows and y's rows", x.rows(), y.rows());
  check.equal("x's columns and y's columns", x.cols(), y.cols());
  check.equal("gamma's size and x's columns", gamma.size(), x.cols());
  check.equal("beta's size and x's columns", beta.size(), x.cols());
  check.writes({"y", y});
  check.apart_or_same({"y", y}, {"x", x});
  check.apart({"y", y}, {"gamma", gamma});
  check.apart({"y", y}, {"beta", beta});
  using A = detail::Accumulator<T>;
  if (const auto narrow = detail::narrow_config(stream.stream.device(), x, y))
    return layernorm_narrow_kernel<T>().launch(stream, *narrow, x.transpose(), gamma, beta, y.transpose(),
                                               static_cast<A>(options.eps));
  auto c = detail::known_row_config("layernorm", dtype_of<T>, stream, x.rows(), x.cols(), sizeof(A),
                                    {x, gamma, beta, y});
  (c.whole ? layernorm_kernel<T>() : layernorm_looped_kernel<T>())
      .launch(stream, c.config, x, gamma, beta, y, static_cast<A>(options.eps));
}
} // namespace

#define KILN_OPS_LAYERNORM(T)                                                                                \
  template KILN_API_INSTANCE const LayernormKernel<T>& layernorm_kernel<T>();                                \
  template KILN_API_INSTANCE const LayernormKernel<T>& layernorm_looped_kernel<T>();                         \
  void layernorm(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 1> gamma,            \
                 TensorView<const T, 1> beta, TensorView<T, 2> y, NormOptions options) {                     \
    launch_layernorm(stream, x, gamma, beta, y, options);                                                    \
  }
KILN_OPS_ELEMENTS(KILN_OPS_LAYERNORM)

namespace {

const cli::KernelRegistration registered_layernorm({
    .name = "layernorm",
    .summary = "layer normalisation of rows that fit a tile, f32",
    .record = [](const Config& config) { return layernorm_kernel<float>().record(config); },
    .config = "BM=1,BN=4096",
    .sizes = "M=4096,N=4096",
    .parameters = "x=M,N gamma=N beta=N y=M,N eps=0.00001",
});

} // namespace
} // namespace kiln::ops
