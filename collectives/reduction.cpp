// Implements reductions over ranks with one kernel, which adds the contributions element by element.
#include <kiln/collectives/reduction.h>

#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <optional>

namespace kiln::collectives {
namespace {

using ops::BM, ops::BN;
using ops::detail::ErasedView;
using ops::detail::Handle;
using ops::detail::OpVariant;

// The lowest bits of the options are the reduction.
constexpr std::uint32_t with_bias = 8, with_residual = 16;

template <class A, class T, class U> Tile<A, BM, BN> combined(Reduction reduction, const T& a, const U& b) {
  switch (reduction) {
  case Reduction::max: return max(a, b);
  case Reduction::min: return min(a, b);
  case Reduction::product: return a * b;
  default: return a + b;
  }
}

// The parameters are own, others, y, rank, bias (optional), residual (optional).
void reduce_body(const OpVariant& v, const Handle* next) {
  const auto record = [&]<class A>(A) {
    const ErasedView<A, 2> own(*next++);
    const ErasedView<A, 3> others(*next++);
    const ErasedView<A, 2> y(*next++);
    const Scalar<std::int64_t> rank(*next++);
    std::optional<ErasedView<A, 1>> bias;
    std::optional<ErasedView<A, 2>> residual;
    if (v.options & with_bias) bias.emplace(*next++);
    if (v.options & with_residual) residual.emplace(*next++);
    const auto reduction = static_cast<Reduction>(v.options & 7);
    auto [m, n] = program_tile(y.view(), BM, BN);
    const auto add = [&, m = m, n = n](auto r, auto sum) {
      return combined<A>(reduction, sum, others.tile(r, m, n).load());
    };
    // Rank 0 begins with its own part, the others with that of rank 0.
    const Scalar<std::int64_t> count = others.extent(0);
    const Tile<A, BM, BN> mine = own.tile(m, n).load();
    const Scalar<bool> first = rank == 0;
    Tile<A, BM, BN> sum = where(first, mine, others.tile(Scalar<std::int64_t>(0), m, n).load());
    sum = for_range(1, rank, 1, sum, add);
    sum = where(first, sum, combined<A>(reduction, sum, mine));
    sum = for_range(rank, count, 1, sum, add);
    if (reduction == Reduction::mean) sum = sum / cast<A>(count + 1);
    if (bias) sum = sum + bias->tile(n).load();
    if (residual) sum = sum + residual->tile(m, n).load();
    y.tile(m, n).store(sum);
  };
  ops::detail::with_sum_type(v, record);
}

constinit const ops::detail::OpKernel reduce_kernel("reduce_ranks", reduce_body);

} // namespace

const char* name_of(Reduction reduction) {
  switch (reduction) {
  case Reduction::sum: return "sum";
  case Reduction::max: return "max";
  case Reduction::min: return "min";
  case Reduction::product: return "product";
  case Reduction::mean: return "mean";
  }
  return "";
}

void reduce_in_order(ops::detail::StreamAt stream, const ReduceArguments& a) {
  const ops::Array &own = a.own.array(), &others = a.others.array(), &y = a.y.array();
  if (y.size() == 0) return;
  const bool integers = own.dtype == DType::I32;
  const OpVariant variant{integers ? DType::I32 : ops::detail::compute_dtype({&own, &others, &y}),
                          static_cast<std::uint32_t>(a.reduction) | (a.bias.given() ? with_bias : 0) |
                              (a.residual.given() ? with_residual : 0)};
  ops::detail::OpArguments list{own, others, y, std::int64_t{a.rank}};
  list.add_if(a.bias.given(), a.bias);
  list.add_if(a.residual.given(), a.residual);
  // A heuristic: tiles of up to 1024 elements of a row.
  std::int64_t width = 16;
  while (width < y.extents[1] && width < 1024)
    width *= 2;
  Config config{ops::BM = 1, ops::BN = width};
  if (!stream.stream.device().is_cpu()) config.set(num_warps = 4);
  reduce_kernel.launch(stream, config, variant, list);
}

} // namespace kiln::collectives
