// Registers products of groups of rows with the tuner.
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/spaces.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/grouped_matmul.h>

#include <algorithm>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

// Skinny products are added by special loops, and a group may be one, so that no knob keeps the order of
// additions.
Space grouped_space(DType dtype, const Problem& p, Device device) {
  Space space;
  if (device.is_cpu())
    space.oneof(BM, {1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256})
        .pow2(BN, 16, 4096)
        .pow2(BK, 32, 512)
        .require("sums fit a cache", [bytes = std::max<std::int64_t>(size_of(dtype), 4)](const Choice& c) {
          return c[BM] * c[BN] * bytes <= 1 << 20;
        });
  else
    detail::add_gpu_product(space, size_of(dtype));
  space.require("tiles are not much larger than the matrices", [](const Choice& c, const Problem& p) {
    const std::int64_t average = (p["M"] + p["GROUPS"] - 1) / p["GROUPS"];
    return (c[BM] <= 16 || c[BM] < 4 * average) && (c[BN] <= 64 || c[BN] < 2 * p["N"]) &&
           (c[BK] <= 64 || c[BK] < 2 * p["K"]);
  });
  detail::seed_product(space, device,
                       detail::grouped_matmul_config(device, dtype, p["M"], p["N"], p["K"], p["GROUPS"]));
  return space;
}

// A CPU combines small steps to one product, so that a step of one row, which never needs a mask, is fast.
Space backward_b_space(DType dtype, const Problem& p, Device device) {
  Space space;
  if (device.is_cpu())
    space.pow2(BM, 16, 256)
        .pow2(BN, 16, 1024)
        .oneof(BK, {1, 4, 16, 32, 64, 128})
        .require("sums fit a cache", [bytes = std::max<std::int64_t>(size_of(dtype), 4)](const Choice& c) {
          return c[BM] * c[BN] * bytes <= 1 << 20;
        });
  else
    detail::add_gpu_product(space, size_of(dtype));
  space.require("tiles are not much larger than the matrices", [](const Choice& c, const Problem& p) {
    return (c[BM] <= 64 || c[BM] < 2 * p["K"]) && (c[BN] <= 64 || c[BN] < 4 * p["N"]) &&
           (c[BK] <= 64 || c[BK] < 2 * p["M"]);
  });
  detail::seed_product(space, device,
                       detail::grouped_backward_b_config(device, dtype, p["M"], p["N"], p["K"], p["GROUPS"]));
  return space;
}

// Groups of the same size, or nearly.
Tensor<std::int32_t, 1> usual_offsets(Stream& stream, const Problem& p) {
  auto offsets = Tensor<std::int32_t, 1>::empty({p["GROUPS"] + 1});
  for (std::int64_t g = 0; g <= p["GROUPS"]; ++g)
    offsets.data()[g] = static_cast<std::int32_t>(p["M"] * g / p["GROUPS"]);
  return offsets.to(stream.device());
}

void call_grouped(Stream& stream, DType dtype, const Problem& p) {
  const auto a = detail::stand_in_array(dtype, {p["M"], p["K"]});
  const auto b = detail::stand_in_array(dtype, {p["GROUPS"], p["K"], p["N"]});
  const auto c = detail::stand_in_array(dtype, {p["M"], p["N"]});
  const auto offsets = usual_offsets(stream, p);
  ops::grouped_matmul(stream, Input(a), Input(b), offsets, Output(c));
}
void call_backward_b(Stream& stream, DType dtype, const Problem& p) {
  const auto a = detail::stand_in_array(dtype, {p["M"], p["K"]});
  const auto dc = detail::stand_in_array(dtype, {p["M"], p["N"]});
  const auto db = detail::stand_in_array(dtype, {p["GROUPS"], p["K"], p["N"]});
  const auto offsets = usual_offsets(stream, p);
  ops::grouped_matmul_backward_b(stream, Input(a), Input(dc), offsets, Output(db));
}

const detail::TunableOp tunable_grouped(
    {
        .name = "grouped_matmul",
        .summary = "products of groups of rows, M in total, each with its matrix",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=1024,N=2048,K=1024,GROUPS=8",
        .call = call_grouped,
    },
    grouped_space);
const detail::TunableOp tunable_backward_b(
    {
        .name = "grouped_matmul_backward_b",
        .summary = "the gradient of grouped_matmul with respect to the matrices of the groups",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=1024,N=2048,K=1024,GROUPS=8",
        .call = call_backward_b,
    },
    backward_b_space);

} // namespace
} // namespace kiln::ops
