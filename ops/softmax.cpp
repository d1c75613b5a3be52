// Implements softmax: one kernel for rows that fit a tile, and the online algorithm for wider rows.
#include <kiln/ops/softmax.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/detail/narrow_rows.h>
#include <kiln/ops/detail/rows.h>

#include <cmath>
#include <limits>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;
using detail::ProgramRows;

constexpr std::uint32_t logarithm = 1; // an option of the kernels

template <class A, int Rank> void expect_same(const ErasedView<A, Rank>& x, const ErasedView<A, Rank>& y) {
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(x.cols() == y.cols(), "x's columns and y's columns");
}

// The result for a tile t of rows, whose largest element and whose sum of exponentials are `most` and
// `total`.
template <class A, class T, class M, class S>
auto normalised(const OpVariant& v, const T& t, const M& most, const S& total) {
  Tile shifted = t - most;
  Tile result = v.options & logarithm ? Tile(shifted - log(total)) : Tile(exp(shifted) * (A(1) / total));
  return result;
}

void softmax_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 2> x(arguments[0]), y(arguments[1]);
    expect_same(x, y);
    expects(x.cols() <= dim_size(BN), "x's columns and BN, which must cover them");
    const auto rows = ProgramRows<2>::of(x);
    auto col = offset(BN, 0);
    Tile t = rows.tile(x, col).load_or(-INFINITY);
    Tile most = max(t, BN, keep);
    rows.tile(y, col).store(normalised<A>(v, t, most, sum(exp(t - most), BN, keep)));
  });
}

// For narrow rows: takes the transposed matrices, so that the elements of a vector are of as many rows.
void softmax_narrow_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 2> x(arguments[0]), y(arguments[1]);
    detail::expect_narrow(x, y);
    auto [col, row] = program_tile(x.view(), BN, BM);
    Tile t = x.tile(col, row).load();
    Tile most = max(t, BN, keep);
    y.tile(col, row).store(normalised<A>(v, t, most, sum(exp(t - most), BN, keep)));
  });
}

// This is the algorithm of Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv
// 1805.02867): when a part of the row has a larger maximum, the sum so far is scaled to it. As long as the
// maximum is -infinity, `shift` is 0, because -infinity - -infinity would be NaN.
template <int Rank> void softmax_looped_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, Rank> x(arguments[0]), y(arguments[1]);
    expect_same(x, y);
    const auto rows = ProgramRows<Rank>::of(x);
    constexpr A lowest = -std::numeric_limits<A>::infinity();
    auto [most, total] = for_range(
        BN, x.cols(), state(full(lowest, BM, 1_c), zeros<A>(BM, 1_c)), [&](auto col, auto most, auto total) {
          Tile t = rows.tile(x, col).load_or(lowest);
          Tile next = max(most, max(t, BN, keep));
          Tile shift = where(next == lowest, A(0), next);
          return state(next, total * exp(most - shift) + sum(exp(t - shift), BN, keep));
        });
    for_range(BN, x.cols(), [&, most = most, total = total](auto col) {
      rows.tile(y, col).store(normalised<A>(v, rows.tile(x, col).load(), most, total));
    });
  });
}

// With elements beyond the row as zeros, the sum needs no mask.
template <int Rank> void backward_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, Rank> y(arguments[0]), dy(arguments[1]), dx(arguments[2]);
    expect_same(y, dy);
    expect_same(y, dx);
    const auto rows = ProgramRows<Rank>::of(y);
    const bool is_log = v.options & logarithm;
    auto total = for_range(BN, y.cols(), zeros<A>(BM, 1_c), [&](auto col, auto total) {
      Tile d = rows.tile(dy, col).load();
      return total + sum(is_log ? d : Tile(d * rows.tile(y, col).load()), BN, keep);
    });
    for_range(BN, y.cols(), [&](auto col) {
      Tile out = rows.tile(y, col).load(), d = rows.tile(dy, col).load();
      rows.tile(dx, col).store(is_log ? Tile(d - exp(out) * total) : Tile(out * (d - total)));
    });
  });
}

} // namespace

namespace detail {
constinit const OpKernel softmax_kernel("softmax", softmax_body);
constinit const OpKernel softmax_looped_kernel("softmax_looped", softmax_looped_body<2>);
} // namespace detail

namespace {
constinit const detail::OpKernel narrow_kernel("softmax_narrow", softmax_narrow_body);
constinit const detail::OpKernel strided_kernel("softmax_strided", softmax_looped_body<8>);
constinit const detail::OpKernel backward_kernel("softmax_backward", backward_body<2>);
constinit const detail::OpKernel backward_strided_kernel("softmax_backward_strided", backward_body<8>);

void launch_softmax(const char* op, const detail::StreamAt& stream, const Input& in, const Output& out,
                    SoftmaxOptions options, std::uint32_t kind) {
  const detail::Checks check(op, stream);
  Array x = in.array(), y = out.array();
  check.tensor({"x", x}, 1);
  check.tensor({"y", y}, 1);
  check.same_extents({"x", x}, {"y", y});
  check.axis({"x", x}, options.axis);
  check.writes({"y", y});
  check.apart_or_same({"y", y}, {"x", x});
  detail::move_to_end(x, options.axis);
  detail::move_to_end(y, options.axis);
  const OpVariant variant{detail::compute_dtype({&x, &y}), kind};
  if (!detail::merge_rows(op, {&x, &y})) {
    const Config config = detail::strided_config(stream, x, variant.compute);
    const Grid grid = detail::strided_grid(x, config);
    return strided_kernel.launch(stream, config, variant, {x, y}, &grid);
  }
  if (const auto narrow = detail::narrow_config(stream.stream.device(), {&x, &y}, options.batch_invariant))
    return narrow_kernel.launch(stream, *narrow, variant, {detail::transposed(x), detail::transposed(y)});
  const detail::OpArguments list{x, y};
  const auto c =
      detail::known_row_config("softmax", stream, x, options.batch_invariant,
                               {detail::softmax_kernel, variant, list, &detail::softmax_looped_kernel});
  (c.whole ? detail::softmax_kernel : detail::softmax_looped_kernel).launch(stream, c.config, variant, list);
}

void launch_backward(const char* op, const detail::StreamAt& stream, const Input& result,
                     const Input& gradient, const Output& out, SoftmaxOptions options, std::uint32_t kind) {
  const detail::Checks check(op, stream);
  Array y = result.array(), dy = gradient.array(), dx = out.array();
  check.tensor({"y", y}, 1);
  check.tensor({"dy", dy}, 1);
  check.tensor({"dx", dx}, 1);
  check.same_extents({"y", y}, {"dy", dy});
  check.same_extents({"y", y}, {"dx", dx});
  check.axis({"y", y}, options.axis);
  check.writes({"dx", dx});
  check.apart_or_same({"dx", dx}, {"y", y});
  check.apart_or_same({"dx", dx}, {"dy", dy});
  for (Array* a : {&y, &dy, &dx})
    detail::move_to_end(*a, options.axis);
  const OpVariant variant{detail::compute_dtype({&y, &dy, &dx}), kind};
  if (!detail::merge_rows(op, {&y, &dy, &dx})) {
    const Config config = detail::strided_config(stream, y, variant.compute);
    const Grid grid = detail::strided_grid(y, config);
    return backward_strided_kernel.launch(stream, config, variant, {y, dy, dx}, &grid);
  }
  const detail::OpArguments list{y, dy, dx};
  const auto c = detail::known_row_config("softmax_backward", stream, y, options.batch_invariant,
                                          {backward_kernel, variant, list});
  backward_kernel.launch(stream, c.config, variant, list);
}

} // namespace

void softmax(detail::StreamAt stream, const Input& x, const Output& y, SoftmaxOptions options) {
  launch_softmax("ops::softmax", stream, x, y, options, 0);
}
void log_softmax(detail::StreamAt stream, const Input& x, const Output& y, SoftmaxOptions options) {
  launch_softmax("ops::log_softmax", stream, x, y, options, logarithm);
}
void softmax_backward(detail::StreamAt stream, const Input& y, const Input& dy, const Output& dx,
                      SoftmaxOptions options) {
  launch_backward("ops::softmax_backward", stream, y, dy, dx, options, 0);
}
void log_softmax_backward(detail::StreamAt stream, const Input& y, const Input& dy, const Output& dx,
                          SoftmaxOptions options) {
  launch_backward("ops::log_softmax_backward", stream, y, dy, dx, options, logarithm);
}

namespace detail {
std::shared_ptr<ir::Kernel> record_softmax(DType dtype, const Config& config, bool whole) {
  return (whole ? softmax_kernel : softmax_looped_kernel)
      .record(config, {dtype == DType::F64 ? DType::F64 : DType::F32, 0},
              {reading(dtype, 2), writing(dtype, 2)});
}
} // namespace detail

namespace {

const cli::KernelRegistration registered_softmax({
    .name = "softmax",
    .summary = "softmax of rows that fit a tile, f32",
    .record = [](const Config& config) { return detail::record_softmax(DType::F32, config, true); },
    .config = "BM=1,BN=4096",
    .sizes = "M=4096,N=4096",
    .parameters = "x=M,N y=M,N",
});
const cli::KernelRegistration registered_softmax_looped({
    .name = "softmax_looped",
    .summary = "softmax of rows of any width, f32",
    .record = [](const Config& config) { return detail::record_softmax(DType::F32, config, false); },
    .config = "BM=1,BN=4096",
    .sizes = "M=512,N=128256",
    .parameters = "x=M,N y=M,N",
});

} // namespace
} // namespace kiln::ops
