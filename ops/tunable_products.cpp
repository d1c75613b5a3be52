// Registers products with the tuner.
#include <kiln/autotune/run/registry.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/spaces.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/matmul.h>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

std::shared_ptr<ir::Kernel> record_matmul_of(DType dtype, const Problem&, const Config& config) {
  return detail::record_matmul(dtype, config);
}

// For one product, or for each of a batch.
Space matmul_space(DType dtype, const Problem& p, Device device) {
  const std::int64_t bytes = size_of(dtype);
  Space space;
  if (device.is_cpu()) {
    space.oneof(BM, {1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512})
        .oneof(BN, {16, 32, 64, 128, 256, 512})
        .oneof(BK, {32, 64, 128, 256, 512})
        .require("sums fit a cache", [bytes](const Choice& c) {
          return c[BM] * c[BN] * std::max<std::int64_t>(bytes, 4) <= 1 << 20;
        });
  } else {
    detail::add_gpu_product(space, bytes);
  }
  space.require("tiles are not much larger than the matrices", [](const Choice& c, const Problem& p) {
    return (c[BM] <= 16 || c[BM] < 2 * p["M"]) && (c[BN] <= 64 || c[BN] < 2 * p["N"]) &&
           (c[BK] <= 64 || c[BK] < 2 * p["K"]);
  });
  // Products with fewer rows or columns are computed by special loops, which depend on the tile as well and
  // add in another order.
  constexpr std::int64_t many = 64;
  if (device.is_cpu() && p["M"] >= many && p["N"] >= many) space.keeps_order({BM, BN});
  // The seed is the config of matmul_config, moved to the nearest values that the space has.
  detail::seed_product(space, device, matmul_config(device, dtype, p["M"], p["N"], p["K"]));
  return space;
}

// Of products that add in a fixed order. An element is a sum in the order of K, with steps of BK, however
// large the tiles are and however many warps share them: see `dot` in dsl/SEMANTICS.md.
Space fixed_order_space(DType dtype, const Problem& p, Device device) {
  Space space = matmul_space(dtype, p, device);
  space.keeps_order({BM, BN});
  if (!device.is_cpu()) space.keeps_order({num_warps});
  return space;
}

template <bool Fixed> void call(Stream& stream, DType dtype, const Problem& p) {
  const auto array = [&](std::int64_t rows, std::int64_t columns) {
    return p.find("B") ? detail::stand_in_array(dtype, {p["B"], rows, columns})
                       : detail::stand_in_array(dtype, {rows, columns});
  };
  ops::matmul(stream, Input(array(p["M"], p["K"])), Input(array(p["K"], p["N"])),
              Output(array(p["M"], p["N"])), {.batch_invariant = Fixed});
}

const std::vector<DType> dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16};

const tune::TunableRegistration tunable_matmul({
    .name = "matmul",
    .summary = "c = a b",
    .dtypes = dtypes,
    .record = record_matmul_of,
    .space = matmul_space,
    .sizes = "M=1024,N=1024,K=1024",
    .parameters = "a=M,K b=K,N c=M,N",
});
const detail::TunableOp tunable_batched(
    {
        .name = "matmul_batched",
        .summary = "c = a b for each matrix of a batch",
        .dtypes = dtypes,
        .sizes = "B=16,M=256,N=256,K=256",
        .call = call<false>,
    },
    matmul_space);
const detail::TunableOp tunable_batch_invariant(
    {
        .name = "matmul_batch_invariant",
        .summary = "c = a b, whose rows do not depend on their batch",
        .dtypes = dtypes,
        .sizes = "M=1024,N=1024,K=1024",
        .call = call<true>,
    },
    fixed_order_space);
const detail::TunableOp tunable_batched_batch_invariant(
    {
        .name = "matmul_batched_batch_invariant",
        .summary = "the same for each matrix of a batch",
        .dtypes = dtypes,
        .sizes = "B=16,M=256,N=256,K=256",
        .call = call<true>,
    },
    fixed_order_space);

} // namespace
} // namespace kiln::ops
