// Implements the gradients of gated activations with one kernel that has two results.
#include <kiln/ops/elementwise.h>

#include <kiln/ops/detail/activate.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/elements.h>

#include <utility>

namespace kiln::ops {
namespace {

// The options of the kernels; the lowest two bits are the activation.
constexpr std::uint32_t has_dgate = 4, has_dup = 8;

// gate, up, dy, and those of dgate and dup that the options name.
template <int Rank> void mul_backward_body(const detail::OpVariant& v, const detail::Handle* arguments) {
  detail::with_compute_type(v, [&]<class A>(A) {
    const detail::ErasedView<A, Rank> gate(arguments[0]), up(arguments[1]), dy(arguments[2]);
    const detail::Handle* next = arguments + 3;
    detail::each_element_tile(gate, [&](const auto& tile) {
      Tile x = tile.of(gate).load(), factor = tile.of(up).load(), d = tile.of(dy).load();
      Tile y = detail::activate(static_cast<Activation>(v.options & 3), x);
      if (v.options & has_dgate) {
        const detail::ErasedView<A, Rank> dgate(*next++);
        tile.of(dgate).store(detail::activate_backward(x, y, Tile(d * factor)));
      }
      if (v.options & has_dup) {
        const detail::ErasedView<A, Rank> dup(*next++);
        tile.of(dup).store(d * y);
      }
    });
  });
}

constinit const detail::OpKernel mul_backward_kernel("activation_mul_backward", mul_backward_body<2>);
constinit const detail::OpKernel mul_backward_strided("activation_mul_backward_strided",
                                                      mul_backward_body<8>);

} // namespace

void activation_mul_backward(detail::StreamAt stream, const Input& in_gate, const Input& in_up,
                             const Input& in_dy, const Output& out_gate, const Output& out_up,
                             Activation activation) {
  const char* const op = "ops::activation_mul_backward";
  const detail::Checks check(op, stream);
  check.activation(activation);
  Array gate = in_gate.array(), up = in_up.array(), dy = in_dy.array();
  Array dgate = out_gate.given() ? out_gate.array() : gate, dup = out_up.given() ? out_up.array() : gate;
  const detail::Argument inputs[] = {{"gate", gate}, {"up", up}, {"dy", dy}};
  for (const detail::Argument& in : inputs) {
    check.tensor(in, 1);
    check.same_extents(inputs[0], in);
  }
  check.that(out_gate.given() || out_up.given(), "no result is given; pass dgate or dup");
  for (const auto& [given, out] : {std::pair(out_gate.given(), detail::Argument{"dgate", dgate}),
                                   std::pair(out_up.given(), detail::Argument{"dup", dup})}) {
    if (!given) continue;
    check.floats(out);
    check.same_extents(inputs[0], out);
    check.writes(out);
    for (const detail::Argument& in : inputs)
      check.apart_or_same(out, in);
  }
  if (out_gate.given() && out_up.given()) check.apart({"dup", dup}, {"dgate", dgate});
  const detail::OpVariant variant{detail::compute_dtype({&gate, &up, &dy, &dgate, &dup}),
                                  static_cast<std::uint32_t>(activation) |
                                      (out_gate.given() ? has_dgate : 0) | (out_up.given() ? has_dup : 0)};
  const detail::ElementLaunch launch{op, "activation_mul_backward", mul_backward_kernel, mul_backward_strided,
                                     detail::MergeOrder::by_stride};
  const bool matrices = merge_elements(launch, {&gate, &up, &dy, &dgate, &dup});
  detail::OpArguments list{gate, up, dy};
  list.add_if(out_gate.given(), dgate);
  list.add_if(out_up.given(), dup);
  launch_elements(launch, stream, matrices, gate, variant, list);
}

} // namespace kiln::ops
