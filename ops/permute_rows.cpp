// Implements the copying of rows to the order of experts, and the weighted sums of their results.
#include <kiln/ops/routing.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace kiln::ops {
namespace {

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;

constexpr std::uint32_t weighted = 1;

// The parameters are x, order, y, slots.
void permute_body(const OpVariant& v, const Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 2> x(arguments[0]), y(arguments[2]);
    const ErasedView<std::int64_t, 1> order(arguments[1]);
    const Scalar<std::int64_t> slots(arguments[3]);
    expects(order.size() == y.rows(), "order's size and y's rows");
    expects(x.cols() == y.cols(), "x's columns and y's columns");
    auto [row, n] = program_tile(y.view(), each, BN);
    const Scalar<std::int64_t> pair = order.tile(row).load(), from = pair / slots;
    device_assert(from < x.rows(), "order has an index beyond the rows of x");
    const Scalar<bool> known = (pair >= 0) & (from < x.rows());
    y.tile(row, n).store(where(known, x.tile(where(known, from, 0), n).load(), A(0)));
  });
}

// The parameters are rows, place, weights (optional), y.
void combine_body(const OpVariant& v, const Handle* next) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const ErasedView<A, 2> rows(*next++);
    const ErasedView<std::int64_t, 2> place(*next++);
    std::optional<ErasedView<A, 2>> weights;
    if (v.options & weighted) weights.emplace(*next++);
    const ErasedView<A, 2> y(*next++);
    expects(place.rows() == y.rows(), "place's rows and y's rows");
    expects(rows.cols() == y.cols(), "rows' columns and y's columns");
    auto [token, n] = program_tile(y.view(), each, BN);
    y.tile(token, n).store(
        for_range(0, place.cols(), 1, zeros<A>(BN), [&, token = token, n = n](auto slot, auto sum) {
          const Scalar<std::int64_t> at = place.tile(token, slot).load();
          device_assert(at < rows.rows(), "place has an index beyond the rows");
          const Scalar<bool> known = (at >= 0) & (at < rows.rows());
          Tile t = rows.tile(where(known, at, 0), n).load();
          if (weights) t = t * weights->tile(token, slot).load();
          return where(known, sum + t, sum);
        }));
  });
}

constinit const detail::OpKernel permute_kernel("permute_rows", permute_body);
constinit const detail::OpKernel combine_kernel("combine_rows", combine_body);

void check_indices(const detail::Checks& check, const char* name, const Array& x, int rank) {
  check.rank({name, x}, rank);
  check.that(x.dtype == DType::I32 || x.dtype == DType::I64,
             "the indices are of neither i32 nor i64; pass integers of one of these dtypes");
}

} // namespace

void permute_rows(detail::StreamAt stream, const Input& x_, const Input& order_, const Output& y_,
                  const PermuteOptions& options) {
  const detail::Checks check("ops::permute_rows", stream);
  const Array &x = x_.array(), &order = order_.array(), &y = y_.array();
  for (const detail::Argument& argument : {detail::Argument{"x", x}, {"y", y}}) {
    check.rank(argument, 2);
    check.floats(argument);
  }
  check_indices(check, "order", order, 1);
  check.that(options.slots >= 1, "slots is below 1; pass the number of experts of a token");
  check.equal("order's size and y's rows", order.extents[0], y.extents[0]);
  check.equal("x's columns and y's columns", x.extents[1], y.extents[1]);
  check.writes({"y", y});
  check.apart({"y", y}, {"x", x});
  check.apart({"y", y}, {"order", order});
  if (y.size() == 0) return;
  const OpVariant variant{detail::compute_dtype({&x, &y}), 0};
  const detail::OpArguments list{x, order, y, options.slots};
  const std::int64_t rows = y.extents[0], n = y.extents[1];
  auto config = detail::known_config("permute_rows", stream, {rows, n}, {permute_kernel, variant, list});
  if (!config) config = detail::row_part_config(stream.stream.device(), n);
  permute_kernel.launch(stream, *config, variant, list);
}

void combine_rows(detail::StreamAt stream, const Input& rows_, const Input& place_, const Input& weights,
                  const Output& y_) {
  const detail::Checks check("ops::combine_rows", stream);
  const Array &rows = rows_.array(), &place = place_.array(), &y = y_.array();
  for (const detail::Argument& argument : {detail::Argument{"rows", rows}, {"y", y}}) {
    check.rank(argument, 2);
    check.floats(argument);
  }
  check_indices(check, "place", place, 2);
  check.equal("place's rows and y's rows", place.extents[0], y.extents[0]);
  check.equal("rows' columns and y's columns", rows.extents[1], y.extents[1]);
  check.writes({"y", y});
  check.apart({"y", y}, {"rows", rows});
  check.apart({"y", y}, {"place", place});
  const Array w = weights.given() ? weights.array() : rows;
  if (weights.given()) {
    check.floats({"weights", w});
    check.same_extents({"place", place}, {"weights", w});
    check.apart({"y", y}, {"weights", w});
  }
  if (y.size() == 0) return;
  const OpVariant variant{detail::compute_dtype({&rows, &w, &y}), weights.given() ? weighted : 0};
  detail::OpArguments list{rows, place};
  list.add_if(weights.given(), w);
  list.add(y);
  const std::int64_t tokens = y.extents[0], n = y.extents[1], slots = place.extents[1];
  auto config =
      detail::known_config("combine_rows", stream, {tokens, n, slots}, {combine_kernel, variant, list});
  if (!config) config = detail::row_part_config(stream.stream.device(), n);
  combine_kernel.launch(stream, *config, variant, list);
}

Config detail::row_part_config(Device device, std::int64_t columns) {
  const std::uint64_t most = device.is_cpu() ? 4096 : 1024;
  return {BN = static_cast<std::int64_t>(std::min(most, std::bit_ceil(static_cast<std::uint64_t>(columns))))};
}

namespace {

const cli::KernelRegistration registered_combine({
    .name = "combine_rows",
    .summary = "weighted sums of the rows that the experts of a token computed, bf16",
    .record =
        [](const Config& config) {
          return combine_kernel.record(config, {DType::F32, weighted},
                                       {detail::reading(DType::BF16, 2), detail::reading(DType::I32, 2),
                                        detail::reading(DType::F32, 2), detail::writing(DType::BF16, 2)});
        },
    .config = "BN=4096",
    .sizes = "R=4096,N=4096,T=512,K=8",
    .parameters = "rows=R,N place=T,K weights=T,K y=T,N",
});

} // namespace
} // namespace kiln::ops
