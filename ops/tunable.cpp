// Registers the kernels of ops with the tuner: their search spaces, problems and example sizes.
#include <kiln/autotune/run/registry.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/matmul.h>

#include <algorithm>
#include <bit>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

std::int64_t pow2_above(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(x, 1))));
}

// --- Products ----------------------------------------------------------------------------------------------

std::shared_ptr<ir::Kernel> record_matmul_of(DType dtype, const Problem&, const Config& config) {
  return detail::record_matmul(dtype, config);
}

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
    space.pow2(BM, 16, 256).pow2(BN, 16, 256).pow2(BK, 16, 128).oneof(num_warps, {1, 2, 4, 8});
    space
        .require("a thread holds at most 128 sums",
                 [](const Choice& c) { return c[BM] * c[BN] <= 128 * 32 * c[num_warps]; })
        .require("every warp has sums",
                 [](const Choice& c) { return c[BM] * c[BN] >= 8 * 32 * c[num_warps]; })
        .require("factors fit shared memory", [bytes](const Choice& c, const Problem&, Device d) {
          return (c[BM] + c[BN]) * c[BK] * bytes <= d.limits().max_scratch_bytes;
        });
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
  const Config usual = matmul_config(device, dtype, p["M"], p["N"], p["K"]);
  space.seed_near(usual);
  return space;
}

// --- Rows --------------------------------------------------------------------------------------------------

// Records one of two kernels. The config selects the kernel, so the recording is valid for that config only.
using RecordRows = std::shared_ptr<ir::Kernel> (*)(DType dtype, const Config& config, bool whole);
template <RecordRows record>
std::shared_ptr<ir::Kernel> record_rows(DType dtype, const Problem&, const Config& config) {
  auto kernel = record(dtype, detail::without_whole(config), config.get(detail::whole_knob).value_or(1) != 0);
  kernel->config_specific = true;
  kernel->recorded_with = config;
  return kernel;
}

Space row_space(DType dtype, const Problem& p, Device device) {
  const std::int64_t columns = p["N"], bytes = dtype == DType::F64 ? 8 : 4, covers = pow2_above(columns);
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
  if (device.is_cpu())
    space.require("a tile is at most 4 MiB",
                  [bytes](const Choice& c) { return c[BM] * c[BN] * bytes <= 4 << 20; });
  else
    space.require("a thread holds at most 64 elements",
                  [](const Choice& c) { return c[BM] * c[BN] <= 64 * 32 * c[num_warps]; });
  const auto usual = detail::row_config(device, p["M"], columns, bytes);
  Config seed = usual.config;
  seed.set(detail::whole_knob, usual.whole);
  if (usual.whole) seed.set("BN", std::max<std::int64_t>(16, covers));
  space.keeps_order({BM}).seed_near(seed);
  return space;
}

// --- Attention ---------------------------------------------------------------------------------------------

template <bool causal>
std::shared_ptr<ir::Kernel> record_attention_of(DType dtype, const Problem&, const Config& config) {
  return detail::record_attention(dtype, config, causal);
}

template <bool causal> Space attention_space(DType dtype, const Problem& p, Device device) {
  const std::int64_t width = p["D"], bytes = dtype == DType::F64 ? 8 : 4;
  Space space;
  space.oneof(WIDTH, {width}).oneof(VALUES, {width});
  if (device.is_cpu()) {
    space.pow2(QUERIES, 16, 512).pow2(KEYS, 32, 512);
    space.require("scores and sums fit a cache", [bytes, width](const Choice& c) {
      return c[QUERIES] * (c[KEYS] + width) * bytes <= 1 << 20;
    });
  } else {
    space.pow2(QUERIES, 16, 128).pow2(KEYS, 16, 128).oneof(num_warps, {1, 2, 4, 8});
    space.require("a thread holds at most 256 numbers", [width](const Choice& c) {
      return c[QUERIES] * (c[KEYS] + width) <= 256 * 32 * c[num_warps];
    });
  }
  space
      .require("there are so many queries",
               [](const Choice& c, const Problem& p) { return c[QUERIES] <= 16 || c[QUERIES] < 2 * p["T"]; })
      .require("there are so many keys",
               [](const Choice& c, const Problem& p) { return c[KEYS] <= 32 || c[KEYS] < 2 * p["S"]; });
  space.seed_near(detail::attention_config(device, p["T"], width, width, causal));
  return space;
}

const tune::TunableRegistration tunable_matmul({
    .name = "matmul",
    .summary = "c = a b",
    .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
    .record = record_matmul_of,
    .space = matmul_space,
    .sizes = "M=1024,N=1024,K=1024",
    .parameters = "a=M,K b=K,N c=M,N",
});
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
const tune::TunableRegistration tunable_attention({
    .name = "attention",
    .summary = "o = softmax(q k^T / sqrt(D)) v",
    .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
    .record = record_attention_of<false>,
    .space = attention_space<false>,
    .sizes = "B=1,H=8,G=8,T=1024,S=1024,D=64",
    .parameters = "q=B,H,T,D k=B,G,S,D v=B,G,S,D o=B,H,T,D scale=0.125 first_batch=0",
});
const tune::TunableRegistration tunable_attention_causal({
    .name = "attention_causal",
    .summary = "attention in which query i sees the keys up to i",
    .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
    .record = record_attention_of<true>,
    .space = attention_space<true>,
    .sizes = "B=1,H=8,G=8,T=1024,S=1024,D=64",
    .parameters = "q=B,H,T,D k=B,G,S,D v=B,G,S,D o=B,H,T,D scale=0.125 first_batch=0",
});

} // namespace
} // namespace kiln::ops
