// Registers ops on rows with the tuner.
#include <kiln/autotune/run/registry.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/column_sums.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/detail/spaces.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/softmax.h>

#include <algorithm>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

// Records one of two kernels. The config selects the kernel, so the recording is valid for that config only.
using RecordRows = std::shared_ptr<ir::Kernel> (*)(DType dtype, const Config& config, bool whole);
template <RecordRows record>
std::shared_ptr<ir::Kernel> record_rows(DType dtype, const Problem&, const Config& config) {
  auto kernel = record(dtype, detail::without_whole(config), config.get(detail::whole_knob).value_or(1) != 0);
  kernel->config_specific = true;
  kernel->recorded_with = config;
  return kernel;
}

void require_small_tiles(Space& space, std::int64_t bytes, Device device) {
  if (device.is_cpu())
    space.require("a tile is at most 4 MiB",
                  [bytes](const Choice& c) { return c[BM] * c[BN] * bytes <= 4 << 20; });
  else
    space.require("a thread holds at most 64 elements",
                  [](const Choice& c) { return c[BM] * c[BN] <= 64 * 32 * c[num_warps]; });
}

// Of kernels that loop over parts of a row, which may be the whole row.
Space part_space(DType dtype, const Problem& p, Device device) {
  const std::int64_t columns = p["N"], bytes = dtype == DType::F64 ? 8 : 4;
  Space space;
  space.pow2(BM, 1, device.is_cpu() ? 64 : 16).pow2(BN, 16, 1 << 14);
  if (!device.is_cpu()) space.oneof(num_warps, {1, 2, 4, 8, 16});
  space
      .require("a part is not much wider than the row",
               [columns](const Choice& c) { return c[BN] <= 64 || c[BN] < 2 * columns; })
      .require("there are so many rows",
               [](const Choice& c, const Problem& p) { return c[BM] < 2 * p["M"] || c[BM] == 1; });
  require_small_tiles(space, bytes, device);
  Config seed = detail::row_config(device, p["M"], columns, bytes).config;
  space.keeps_order({BM}).seed_near(seed);
  return space;
}

// Of kernels that have a variant for whole rows.
Space whole_or_part_space(DType dtype, const Problem& p, Device device) {
  const std::int64_t columns = p["N"], bytes = dtype == DType::F64 ? 8 : 4,
                     covers = detail::pow2_above(columns);
  Space space;
  space.pow2(BM, 1, device.is_cpu() ? 64 : 16).pow2(BN, 16, 1 << 17);
  space.oneof(detail::whole_knob, {0, 1});
  if (!device.is_cpu()) space.oneof(num_warps, {1, 2, 4, 8, 16});
  space
      .require("a whole row is the least power of two that covers it",
               [covers](const Choice& c) {
                 return !c[detail::whole_knob] || c[BN] == std::max<std::int64_t>(16, covers);
               })
      .require("a part is less than the row",
               [columns](const Choice& c) { return c[detail::whole_knob] || c[BN] < columns; })
      .require("parts are worth their loop",
               [](const Choice& c) { return c[detail::whole_knob] || c[BN] >= 64; })
      .require("there are so many rows",
               [](const Choice& c, const Problem& p) { return c[BM] < 2 * p["M"] || c[BM] == 1; });
  require_small_tiles(space, bytes, device);
  const auto usual = detail::row_config(device, p["M"], columns, bytes);
  Config seed = usual.config;
  seed.set(detail::whole_knob, usual.whole);
  if (usual.whole) seed.set("BN", std::max<std::int64_t>(16, covers));
  space.seed_near(seed);
  return space;
}
Space row_space(DType dtype, const Problem& p, Device device) {
  return whole_or_part_space(dtype, p, device).keeps_order({BM});
}

// A program takes the rows of a group in whole tiles, and adds up their columns, so that BM changes the order
// of additions.
Space norm_backward_space(DType dtype, const Problem& p, Device device) {
  const std::int64_t group = detail::row_groups(device, p["M"], detail::least_group).size;
  Space space = whole_or_part_space(dtype, p, device);
  space.require("tiles divide the groups of rows", [group](const Choice& c) { return group % c[BM] == 0; });
  return space;
}

void call_rmsnorm(Stream& stream, DType dtype, const Problem& p) {
  const auto rows = [&] { return detail::stand_in_array(dtype, {p["M"], p["N"]}); };
  ops::rmsnorm(stream, Input(rows()), Input(detail::stand_in_array(dtype, {p["N"]})), Output(rows()));
}
void call_softmax_backward(Stream& stream, DType dtype, const Problem& p) {
  const auto rows = [&] { return detail::stand_in_array(dtype, {p["M"], p["N"]}); };
  ops::softmax_backward(stream, Input(rows()), Input(rows()), Output(rows()));
}

template <bool centred> void call_norm_backward(Stream& stream, DType dtype, const Problem& p) {
  const auto rows = [&] { return detail::stand_in_array(dtype, {p["M"], p["N"]}); };
  const auto columns = [&] { return detail::stand_in_array(dtype, {p["N"]}); };
  const Input x(rows()), gamma(columns()), dy(rows());
  const Output dx(rows()), dgamma(columns());
  if constexpr (centred)
    ops::layernorm_backward(stream, x, gamma, dy, dx, dgamma, Output(columns()));
  else
    ops::rmsnorm_backward(stream, x, gamma, dy, dx, dgamma);
}

const tune::TunableRegistration tunable_softmax({
    .name = "softmax",
    .summary = "softmax of each row",
    .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
    .record = record_rows<detail::record_softmax>,
    .space = row_space,
    .sizes = "M=4096,N=1024",
    .parameters = "x=M,N y=M,N",
});
const tune::TunableRegistration tunable_layernorm({
    .name = "layernorm",
    .summary = "layer normalisation of each row",
    .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
    .record = record_rows<detail::record_layernorm>,
    .space = row_space,
    .sizes = "M=4096,N=1024",
    .parameters = "x=M,N gamma=N beta=N y=M,N eps=0.00001",
});
const detail::TunableOp tunable_rmsnorm(
    {
        .name = "rmsnorm",
        .summary = "root-mean-square normalisation of each row",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=4096,N=1024",
        .call = call_rmsnorm,
    },
    row_space);
const detail::TunableOp tunable_softmax_backward(
    {
        .name = "softmax_backward",
        .summary = "the gradient of softmax of each row",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=4096,N=1024",
        .call = call_softmax_backward,
    },
    part_space);
const detail::TunableOp tunable_layernorm_backward(
    {
        .name = "layernorm_backward",
        .summary = "the gradients of layernorm",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=4096,N=1024",
        .call = call_norm_backward<true>,
    },
    norm_backward_space);
const detail::TunableOp tunable_rmsnorm_backward(
    {
        .name = "rmsnorm_backward",
        .summary = "the gradients of rmsnorm",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "M=4096,N=1024",
        .call = call_norm_backward<false>,
    },
    norm_backward_space);

} // namespace
} // namespace kiln::ops
