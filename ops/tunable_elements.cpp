// Registers kernels on elements with the tuner. The axes of contiguous tensors merge to one, so that their
// problems have one row.
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/spaces.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/elementwise.h>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

Space elements_space(DType, const Problem& p, Device device) {
  const Config usual = detail::elements_config(device, p["N"]);
  Space space;
  space.pow2(BM, 1, 256).pow2(BN, 16, 1 << 16);
  space.require("a tile is not much larger than the matrix",
                [most = *usual.get("BM")](const Choice& c, const Problem& p) {
                  return (c[BM] < 2 * p["M"] || c[BM] == most) && (c[BN] == 16 || c[BN] < 2 * p["N"]);
                });
  detail::seed_tile(space, device, usual, 1 << 16, [](const Choice& c) { return c[BM] * c[BN]; });
  detail::keep_order(space);
  return space;
}

void call_activation_mul_backward(Stream& stream, DType dtype, const Problem& p) {
  const auto x = [&] { return detail::stand_in_array(dtype, {p["M"], p["N"]}); };
  ops::activation_mul_backward(stream, Input(x()), Input(x()), Input(x()), Output(x()), Output(x()));
}
void call_dropout(Stream& stream, DType dtype, const Problem& p) {
  const auto x = [&] { return detail::stand_in_array(dtype, {p["M"], p["N"]}); };
  ops::dropout(stream, Input(x()), Output(x()), {.probability = 0.1});
}

const detail::TunableOp tunable_activation_mul_backward(
    {
        .name = "activation_mul_backward",
        .summary = "the gradients of silu(gate) * up",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=1024,N=4096",
        .call = call_activation_mul_backward,
    },
    elements_space);
const detail::TunableOp tunable_dropout(
    {
        .name = "dropout",
        .summary = "sets elements to zero at random",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=1024,N=4096",
        .call = call_dropout,
    },
    elements_space);

} // namespace
} // namespace kiln::ops
