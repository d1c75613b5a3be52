// Implements reductions over ranks with one kernel, which adds the contributions element by element.
#include <kiln/collectives/reduction.h>

#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/narrow_rows.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/norm.h>

#include <algorithm>
#include <optional>

namespace kiln::collectives {
namespace {

using ops::BM, ops::BN;
using ops::detail::ErasedView;
using ops::detail::Handle;
using ops::detail::OpVariant;

// The lowest bits of the options are the reduction.
constexpr std::uint32_t with_bias = 8, with_residual = 16, with_norm = 32, with_gamma = 64;

template <class A, class T, class U> Tile<A, BM, BN> combined(Reduction reduction, const T& a, const U& b) {
  switch (reduction) {
  case Reduction::max: return max(a, b);
  case Reduction::min: return min(a, b);
  case Reduction::product: return a * b;
  default: return a + b;
  }
}

// The parameters are own, others, y, rank, and optionally bias, residual, normed, eps and gamma. With a norm,
// BN covers the rows.
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
    std::optional<ErasedView<A, 2>> normed;
    std::optional<Scalar<A>> eps;
    std::optional<ErasedView<A, 1>> gamma;
    if (v.options & with_norm) normed.emplace(*next++), eps.emplace(*next++);
    if (v.options & with_gamma) gamma.emplace(*next++);
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
    if constexpr (!std::is_same_v<A, std::int32_t>) {
      if (!normed) return;
      // As in ops::rmsnorm, whose bits follow from how a load and a sum are compiled together.
      Tile t = y.tile(m, n).load();
      Tile scale = rsqrt(kiln::sum(t * t, BN, keep) / cast<A>(y.cols()) + *eps);
      Tile result = t * scale;
      if (gamma) result = result * gamma->tile(n).load();
      normed->tile(m, n).store(result);
    }
  };
  ops::detail::with_sum_type(v, record);
}

constinit const ops::detail::OpKernel reduce_kernel("reduce_ranks", reduce_body);

// The config of a batch-invariant ops::rmsnorm of y, if its tiles cover rows.
std::optional<Config> config_of_norm(ops::detail::StreamAt stream, const ReduceArguments& a) {
  const ops::Array &y = a.y.array(), &normed = a.norm.y.array();
  if (ops::detail::narrow_config(stream.stream.device(), {&y, &normed}, true)) return std::nullopt;
  const DType compute = ops::detail::compute_dtype({&a.own.array(), &a.others.array(), &y});
  const ops::detail::RowConfig config =
      ops::detail::row_config(stream.stream.device(), ops::detail::any_rows, y.extents[1], size_of(compute));
  // A norm alone would not compute in f64 because partial sums are of f64, and a sum not because gamma is.
  const DType of_norm = ops::detail::compute_dtype({&y, &normed, &a.norm.gamma.array()});
  return config.whole && compute == of_norm ? std::optional(config.config) : std::nullopt;
}

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
  const bool normed = a.norm.y.given();
  const std::optional<Config> one_tile = normed ? config_of_norm(stream, a) : std::nullopt;
  const bool integers = own.dtype == DType::I32;
  const OpVariant variant{integers ? DType::I32 : ops::detail::compute_dtype({&own, &others, &y}),
                          static_cast<std::uint32_t>(a.reduction) | (a.bias.given() ? with_bias : 0) |
                              (a.residual.given() ? with_residual : 0) | (one_tile ? with_norm : 0) |
                              (one_tile && a.norm.gamma.given() ? with_gamma : 0)};
  ops::detail::OpArguments list{own, others, y, std::int64_t{a.rank}};
  list.add_if(a.bias.given(), a.bias);
  list.add_if(a.residual.given(), a.residual);
  if (one_tile) {
    list.add(a.norm.y);
    list.add({variant.compute, a.norm.eps});
    list.add_if(a.norm.gamma.given(), a.norm.gamma);
    return reduce_kernel.launch(stream, *one_tile, variant, list);
  }
  // A heuristic: tiles of up to 1024 elements of a row.
  std::int64_t width = 16;
  while (width < y.extents[1] && width < 1024)
    width *= 2;
  Config config{ops::BM = 1, ops::BN = width};
  if (!stream.stream.device().is_cpu()) config.set(num_warps = 4);
  reduce_kernel.launch(stream, config, variant, list);
  if (normed) normalise(stream, ops::Input(y), a.norm);
}

void normalise(ops::detail::StreamAt stream, const ops::Input& c, const NormOfSum& norm) {
  ops::rmsnorm(stream, c, norm.gamma, norm.y, {.eps = norm.eps, .batch_invariant = true});
}

} // namespace kiln::collectives
