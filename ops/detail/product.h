// Defines what all matrix products share: the epilogue in their kernels, and its tensors in a call.
#pragma once

#include <kiln/ops/detail/activate.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/matmul_options.h>

#include <optional>

namespace kiln::ops::detail {

inline DotOptions dot_options_of(std::uint32_t options) {
  return {options & matmul_tf32 ? Precision::tf32 : Precision::ieee,
          options & matmul_fixed_order ? SumOrder::fixed : SumOrder::any};
}

// The part of a kernel's parameters that an epilogue uses: bias, times, residual, c, alpha, beta, of which all
// but c are optional. `Bias` and `Result` are the ranks of the bias and of the others.
template <class A, int Bias, int Result> struct ProductEpilogue {
  ProductEpilogue(const OpVariant& v, const Handle*& next)
      : options(v.options), bias(take<ErasedView<A, Bias>>(matmul_bias, next)),
        times(take<ErasedView<A, Result>>(matmul_times, next)),
        residual(take<ErasedView<A, Result>>(matmul_residual, next)), c(*next++),
        alpha(take<Scalar<A>>(matmul_alpha, next)), beta(take<Scalar<A>>(matmul_beta, next)) {}

  DotOptions dot_options() const { return dot_options_of(options); }
  // The result for a tile of a b. `bias_tile` and `place` give the tiles of the bias and of the other views.
  template <class B, class P>
  Tile<A, BM, BN> finished(Tile<A, BM, BN> t, const B& bias_tile, const P& place) const {
    if (alpha) t = t * *alpha;
    if (bias) t = t + bias_tile(*bias).load();
    if constexpr (!std::is_integral_v<A>)
      t = activate(static_cast<Activation>(options & matmul_activation), t);
    if (times) t = t * place(*times).load();
    if (residual) t = t + place(*residual).load();
    if (beta) t = t + *beta * place(c).load();
    return t;
  }

  const std::uint32_t options;
  std::optional<ErasedView<A, Bias>> bias;
  std::optional<ErasedView<A, Result>> times, residual;
  ErasedView<A, Result> c;
  std::optional<Scalar<A>> alpha, beta;

private:
  template <class V> std::optional<V> take(std::uint32_t option, const Handle*& next) const {
    return options & option ? std::optional<V>(V(*next++)) : std::nullopt;
  }
};

// The epilogue of a call. Tensors that are not given are copies of c, which are not passed on.
struct EpilogueArguments {
  EpilogueArguments(const MatmulOptions& options, const Input& bias, const Output& c, Device device);

  bool has(std::uint32_t option) const { return (options & option) != 0; }
  // Checks dtypes and extents of times and residual, and that c may be written while they are read. The
  // bias must be a tensor of floats of `bias_rank` axes with as many columns as c, apart from c.
  void check(const Checks& check, const Argument& c, int bias_rank) const;
  // Adds the arguments of a ProductEpilogue.
  void add_to(OpArguments& list, DType compute) const;

  std::uint32_t options;
  Array bias, times, residual, c;
  double alpha, beta;
  std::int64_t whole_columns;
};

} // namespace kiln::ops::detail
