// Registers attention with the tuner.
#include <kiln/autotune/run/registry.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/decode_tiles.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/dims.h>

#include <algorithm>
#include <cmath>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

template <bool causal>
std::shared_ptr<ir::Kernel> record_attention_of(DType dtype, const Problem&, const Config& config) {
  return detail::record_attention(dtype, config, causal);
}

Space attention_tiles(DType dtype, const Problem& p, Device device, Config seed) {
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
  while (*seed.get("KEYS") > 32 && *seed.get("KEYS") >= 2 * p["S"])
    seed.set("KEYS", *seed.get("KEYS") / 2);
  space.seed_near(seed);
  return space;
}

template <bool causal> Space attention_space(DType dtype, const Problem& p, Device device) {
  return attention_tiles(dtype, p, device, detail::attention_config(device, p["T"], p["D"], p["D"], causal));
}
Space backward_space(DType dtype, const Problem& p, Device device) {
  return attention_tiles(dtype, p, device,
                         detail::attention_backward_config(device, p["T"], p["S"], p["D"], p["D"]));
}

// The log-sum-exp of scores decides how large the weights are, so that it is that of random q and k.
template <class T> Tensor<T, 3> usual_lse(Stream& stream, const Problem& p) {
  auto lse = Tensor<T, 3>::empty({p["B"], p["H"], p["T"]});
  std::fill(lse.begin(), lse.end(), static_cast<T>(std::log(static_cast<double>(p["S"])) + 0.5));
  return lse.to(stream.device());
}

template <bool wants_dq, bool wants_dk_dv> void call_backward(Stream& stream, DType dtype, const Problem& p) {
  const auto queries = [&] { return detail::stand_in_array(dtype, {p["B"], p["H"], p["T"], p["D"]}); };
  const auto keys = [&] { return detail::stand_in_array(dtype, {p["B"], p["G"], p["S"], p["D"]}); };
  const auto with_lse = [&](const auto& lse) {
    const Input dout(queries()), q(queries()), k(keys()), v(keys()), o(queries()), log_sums(lse);
    const Output dq = wants_dq ? Output(queries()) : Output(), dk = wants_dk_dv ? Output(keys()) : Output(),
                 dv = wants_dk_dv ? Output(keys()) : Output();
    detail::attention_backward(stream, {dout, q, k, v, o, log_sums, dq, dk, dv}, {}, {});
  };
  if (dtype == DType::F64)
    with_lse(usual_lse<double>(stream, p));
  else
    with_lse(usual_lse<float>(stream, p));
}

// --- Decoding ----------------------------------------------------------------------------------------------

// Only the keys of a block are chosen: the sizes of a part and of a block of rows decide what is kept between
// the two kernels. P is the number of keys of a page, which is S for a cache that is contiguous.
Space decode_space(DType, const Problem& p, Device device) {
  const std::int64_t page = p["P"];
  const detail::DecodeTiles usual =
      detail::decode_tiles(device, p["H"] / std::max<std::int64_t>(p["G"], 1), p["T"], false);
  const bool paged = page < p["S"], gathered = paged && page % usual.keys != 0;
  Space space;
  space.oneof(detail::GROUP, {usual.group}).oneof(QUERIES, {usual.queries}).oneof(detail::PART, {usual.part});
  space.oneof(WIDTH, {p["D"]}).oneof(VALUES, {p["D"]});
  if (gathered) space.oneof(detail::PAGE, {page});
  if (device.is_cpu())
    space.pow2(KEYS, 16, 512);
  else
    space.pow2(KEYS, 16, 128).oneof(num_warps, {1, 2, 4, 8});
  space.require("a part has whole blocks of keys",
                [](const Choice& c) { return c[detail::PART] % c[KEYS] == 0; });
  if (paged && !gathered)
    space.require("a block of keys lies in one page",
                  [page](const Choice& c) { return page % c[KEYS] == 0; });
  if (!device.is_cpu())
    space.require("a thread holds at most 256 numbers", [](const Choice& c) {
      const std::int64_t rows = c[detail::GROUP] * c[QUERIES];
      return std::max(rows, c[KEYS]) * (c[KEYS] + c[WIDTH]) <= 256 * 32 * c[num_warps] || c[KEYS] == 16;
    });
  Config seed{detail::GROUP = usual.group, QUERIES = usual.queries, KEYS = usual.keys,
              detail::PART = usual.part,   WIDTH = p["D"],          VALUES = p["D"]};
  if (!device.is_cpu()) seed.set(num_warps = 4);
  if (gathered) seed.set(detail::PAGE = page);
  space.seed_near(seed);
  return space;
}

// The caches are full, and the pages of a sequence are not in order.
void call_decode(Stream& stream, DType dtype, const Problem& p) {
  const std::int64_t batch = p["B"], page = p["P"];
  const bool paged = page < p["S"];
  const auto heads = [&] { return detail::stand_in_array(dtype, {batch, p["H"], p["T"], p["D"]}); };
  auto lengths = Tensor<std::int32_t, 1>::empty({batch});
  std::fill(lengths.begin(), lengths.end(), static_cast<std::int32_t>(p["S"]));
  const auto full = lengths.to(stream.device());
  const std::int64_t of_sequence = (p["S"] + page - 1) / page;
  auto blocks = Tensor<std::int32_t, 2>::empty({batch, of_sequence});
  for (std::int64_t i = 0; i < batch * of_sequence; ++i)
    blocks.data()[i] = static_cast<std::int32_t>(batch * of_sequence - 1 - i);
  const auto pages = blocks.to(stream.device());
  const auto cached = [&] {
    return paged ? detail::stand_in_array(dtype, {batch * of_sequence, p["G"], page, p["D"]})
                 : detail::stand_in_array(dtype, {batch, p["G"], p["S"], p["D"]});
  };
  const KeyValueCache cache{
      .keys = Output(cached()), .values = Output(cached()), .blocks = paged ? Input(pages) : Input()};
  ops::attention_decode(stream, Input(heads()), cache, full, Output(heads()));
}

const detail::TunableOp tunable_decode(
    {
        .name = "attention_decode",
        .summary = "attention of few queries with a cache of keys and values, in pages if P is below S",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=4,H=32,G=8,T=1,S=4096,D=128,P=4096",
        .call = call_decode,
        .kernel = "attention_decode",
    },
    decode_space);
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
const detail::TunableOp tunable_backward_heads(
    {
        .name = "attention_backward_heads",
        .summary = "dq, dk and dv of attention on a CPU, where a program computes all of a key head",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=1,H=8,G=8,T=1024,S=1024,D=64",
        .call = call_backward<true, true>,
        .kernel = "attention_backward_heads",
    },
    backward_space);
const detail::TunableOp tunable_backward_keys(
    {
        .name = "attention_backward_keys",
        .summary = "dk and dv of attention",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=1,H=8,G=8,T=1024,S=1024,D=64",
        .call = call_backward<false, true>,
        .kernel = "attention_backward_keys",
    },
    backward_space);
const detail::TunableOp tunable_backward_queries(
    {
        .name = "attention_backward_queries",
        .summary = "dq of attention",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=1,H=8,G=8,T=1024,S=1024,D=64",
        .call = call_backward<true, false>,
        .kernel = "attention_backward_queries",
    },
    backward_space);

} // namespace
} // namespace kiln::ops
