// Checks and passes on the tensors of a product's epilogue.
#include <kiln/ops/detail/product.h>

#include <tuple>

namespace kiln::ops::detail {

EpilogueArguments::EpilogueArguments(const MatmulOptions& o, const Input& bias_, const Output& c_,
                                     Device device)
    : options(static_cast<std::uint32_t>(o.activation) | (bias_.given() ? matmul_bias : 0) |
              (o.times.given() ? matmul_times : 0) | (o.residual.given() ? matmul_residual : 0) |
              (o.alpha != 1 ? matmul_alpha : 0) | (o.beta != 0 ? matmul_beta : 0) |
              (o.precision == Precision::tf32 && !device.is_cpu() ? matmul_tf32 : 0) |
              (o.batch_invariant ? matmul_fixed_order : 0)),
      bias(bias_.given() ? bias_.array() : c_.array()), times(o.times.given() ? o.times.array() : c_.array()),
      residual(o.residual.given() ? o.residual.array() : c_.array()), c(c_.array()), alpha(o.alpha),
      beta(o.beta), whole_columns(o.whole_columns) {}

void EpilogueArguments::check(const Checks& check, const Argument& c_arg, int bias_rank) const {
  if (has(matmul_bias)) {
    check.tensor({"bias", bias}, bias_rank);
    check.rank({"bias", bias}, bias_rank);
    check.equal({bias_rank == 1 ? "bias's size and " : "bias's columns and ", c_arg.name, "'s columns", ""},
                bias.extents[bias_rank - 1], c.extents[c.rank - 1]);
    check.apart(c_arg, {"bias", bias});
  }
  for (const auto& [name, option, array] :
       {std::tuple("times", matmul_times, &times), std::tuple("residual", matmul_residual, &residual)}) {
    if (!has(option)) continue;
    check.floats({name, *array});
    check.same_extents(c_arg, {name, *array});
    check.apart_or_same(c_arg, {name, *array});
  }
}

void EpilogueArguments::add_to(OpArguments& list, DType compute) const {
  list.add_if(has(matmul_bias), bias);
  list.add_if(has(matmul_times), times);
  list.add_if(has(matmul_residual), residual);
  list.add(c);
  list.add_if(has(matmul_alpha), {compute, alpha});
  list.add_if(has(matmul_beta), {compute, beta});
}

} // namespace kiln::ops::detail
