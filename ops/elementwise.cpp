// Implements the elementwise ops of one result, which run as assignments of whole tensors.
#include <kiln/ops/elementwise.h>

#include <kiln/ops/detail/activate.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/elementwise.h>
#include <kiln/ops/detail/op_kernel.h>

namespace kiln::ops {
namespace {

using kiln::detail::Handle;

template <class A, Activation F> Handle activation_body(const Handle* values) {
  return detail::activate(F, detail::elementwise_value<A>(values[0])).record();
}
template <class A, Activation F> Handle activation_mul_body(const Handle* values) {
  Tile product =
      detail::activate(F, detail::elementwise_value<A>(values[0])) * detail::elementwise_value<A>(values[1]);
  return product.record();
}

template <class A, Activation F> Handle activation_backward_body(const Handle* values) {
  const detail::ElementwiseTile<A> x = detail::elementwise_value<A>(values[0]),
                                   dy = detail::elementwise_value<A>(values[1]);
  return detail::activate_backward(x, detail::activate(F, x), dy).record();
}

// The bodies by activation function.
template <class A>
constexpr detail::ElementwiseBody activation_bodies[activation_count] = {
    activation_body<A, Activation::none>, activation_body<A, Activation::relu>,
    activation_body<A, Activation::gelu>, activation_body<A, Activation::silu>};
template <class A>
constexpr detail::ElementwiseBody activation_mul_bodies[activation_count] = {
    activation_mul_body<A, Activation::none>, activation_mul_body<A, Activation::relu>,
    activation_mul_body<A, Activation::gelu>, activation_mul_body<A, Activation::silu>};
template <class A>
constexpr detail::ElementwiseBody activation_backward_bodies[activation_count] = {
    activation_backward_body<A, Activation::none>, activation_backward_body<A, Activation::relu>,
    activation_backward_body<A, Activation::gelu>, activation_backward_body<A, Activation::silu>};

} // namespace

void activation(detail::StreamAt stream, const Input& x, const Output& y, Activation activation) {
  const detail::Checks check("ops::activation", stream);
  check.activation(activation);
  check.tensor({"x", x.array()}, 0);
  check.tensor({"y", y.array()}, 1);
  check.broadcasts({"x", x.array()}, {"y", y.array()});
  check.writes({"y", y.array()});
  const bool wide = detail::compute_dtype({&x.array(), &y.array()}) == DType::F64;
  const auto* bodies = wide ? activation_bodies<double> : activation_bodies<float>;
  detail::run_elementwise("activation", stream, bodies[static_cast<int>(activation)], y.array(),
                          {&x.array()});
}

void activation_backward(detail::StreamAt stream, const Input& x, const Input& dy, const Output& dx,
                         Activation activation) {
  const detail::Checks check("ops::activation_backward", stream);
  check.activation(activation);
  check.tensor({"dx", dx.array()}, 1);
  for (const detail::Argument& in : {detail::Argument{"x", x.array()}, {"dy", dy.array()}}) {
    check.tensor(in, 0);
    check.broadcasts(in, {"dx", dx.array()});
  }
  check.writes({"dx", dx.array()});
  const bool wide = detail::compute_dtype({&x.array(), &dy.array(), &dx.array()}) == DType::F64;
  const auto* bodies = wide ? activation_backward_bodies<double> : activation_backward_bodies<float>;
  detail::run_elementwise("activation_backward", stream, bodies[static_cast<int>(activation)], dx.array(),
                          {&x.array(), &dy.array()});
}

void activation_mul(detail::StreamAt stream, const Input& gate, const Input& up, const Output& y,
                    Activation activation) {
  const detail::Checks check("ops::activation_mul", stream);
  check.activation(activation);
  check.tensor({"gate", gate.array()}, 0);
  check.tensor({"up", up.array()}, 0);
  check.tensor({"y", y.array()}, 1);
  check.broadcasts({"gate", gate.array()}, {"y", y.array()});
  check.broadcasts({"up", up.array()}, {"y", y.array()});
  check.writes({"y", y.array()});
  const bool wide = detail::compute_dtype({&gate.array(), &up.array(), &y.array()}) == DType::F64;
  const auto* bodies = wide ? activation_mul_bodies<double> : activation_mul_bodies<float>;
  detail::run_elementwise("activation_mul", stream, bodies[static_cast<int>(activation)], y.array(),
                          {&gate.array(), &up.array()});
}

} // namespace kiln::ops
