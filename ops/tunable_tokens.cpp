// Registers rotary embedding and cache_append with the tuner.
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/rotation.h>
#include <kiln/ops/detail/spaces.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/kv_cache.h>
#include <kiln/ops/rotary.h>

#include <algorithm>

namespace kiln::ops {
namespace {

using detail::HEADS, detail::TOKENS, detail::PAIRS, detail::REST;
using tune::Choice;
using tune::Problem;
using tune::Space;

// A tile has heads, tokens, and `width` elements of each head.
void add_tile(Space& space, const Problem& p, Device device, const Config& usual, std::int64_t width) {
  space.pow2(HEADS, 1, 64).pow2(TOKENS, 1, 1 << 14);
  space.require("a tile is not much larger than the tensor", [](const Choice& c, const Problem& p) {
    return c[HEADS] < 2 * p["H"] && c[TOKENS] < 2 * p["T"];
  });
  detail::seed_tile(space, device, usual, 1 << 16,
                    [width](const Choice& c) { return c[HEADS] * c[TOKENS] * width; });
  detail::keep_order(space);
}

// D is the width that is rotated.
Space rotary_space(DType, const Problem& p, Device device) {
  const std::int64_t pairs = std::max<std::int64_t>(p["D"] / 2, 1);
  Space space;
  space.oneof(PAIRS, {pairs});
  add_tile(space, p, device, detail::rotary_config(device, p["H"], p["T"], pairs), pairs);
  return space;
}

// Kernels of cache_append have PAIRS if they rotate elements, and REST if they leave some as they are. The
// knobs of a space are the dimensions of its kernels, so that there are three.
enum class Rotated : std::uint8_t { none, some, all };

std::int64_t rotated_width(Rotated rotated, const Problem& p) {
  return rotated == Rotated::none  ? 0
         : rotated == Rotated::all ? p["D"]
                                   : std::min(p["R"], p["D"] - 1) / 2 * 2;
}
template <Rotated rotated> Space append_space(DType, const Problem& p, Device device) {
  const std::int64_t width = p["D"], turned = rotated_width(rotated, p);
  Space space;
  space.oneof(VALUES, {width});
  if (turned > 0) space.oneof(PAIRS, {turned / 2});
  if (turned < width) space.oneof(REST, {width - turned});
  add_tile(space, p, device, detail::append_config(device, p["H"], p["T"], width), width);
  return space;
}

void call_rotary(Stream& stream, DType dtype, const Problem& p) {
  const auto heads = [&] { return detail::stand_in_array(dtype, {p["B"], p["H"], p["T"], p["D"]}); };
  ops::rotary(stream, Input(heads()), Output(heads()));
}
// The sequences have up to T tokens before the call, so that much of the cache is written, and compared.
template <Rotated rotated> void call_append(Stream& stream, DType dtype, const Problem& p) {
  const auto fresh = [&] { return detail::stand_in_array(dtype, {p["B"], p["H"], p["T"], p["D"]}); };
  const auto cached = [&] { return detail::stand_in_array(dtype, {p["B"], p["H"], 2 * p["T"], p["D"]}); };
  auto lengths = Tensor<std::int32_t, 1>::empty({p["B"]});
  for (std::int64_t b = 0; b < p["B"]; ++b)
    lengths.data()[b] = static_cast<std::int32_t>(p["T"] * b / p["B"]);
  const auto before = lengths.to(stream.device());
  AppendOptions options;
  if (rotated != Rotated::none) options.rotary = RotaryOptions{.width = rotated_width(rotated, p)};
  ops::cache_append(stream, Input(fresh()), Input(fresh()), before,
                    {.keys = Output(cached()), .values = Output(cached())}, options);
}

const detail::TunableOp tunable_rotary(
    {
        .name = "rotary",
        .summary = "rotary position embedding",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=1,H=32,T=1024,D=128",
        .call = call_rotary,
    },
    rotary_space);
const detail::TunableOp tunable_append(
    {
        .name = "cache_append",
        .summary = "rotates keys, and appends them and values to a cache",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=8,H=8,T=128,D=128",
        .call = call_append<Rotated::all>,
    },
    append_space<Rotated::all>);
const detail::TunableOp tunable_append_partly(
    {
        .name = "cache_append_partly_rotated",
        .summary = "the same, and rotates only the first R elements of each key",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=8,H=8,T=128,D=128,R=64",
        .call = call_append<Rotated::some>,
    },
    append_space<Rotated::some>);
const detail::TunableOp tunable_append_unrotated(
    {
        .name = "cache_append_unrotated",
        .summary = "the same without rotation",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=8,H=8,T=128,D=128",
        .call = call_append<Rotated::none>,
    },
    append_space<Rotated::none>);

} // namespace
} // namespace kiln::ops
