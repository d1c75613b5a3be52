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
}

// D is the width that is rotated.
Space rotary_space(DType, const Problem& p, Device device) {
  const std::int64_t pairs = std::max<std::int64_t>(p["D"] / 2, 1);
  Space space;
  space.oneof(PAIRS, {pairs});
  add_tile(space, p, device, detail::rotary_config(device, p["H"], p["T"], pairs), pairs);
  return space;
}

// R is the width that is rotated, or D if nothing is. Kernels without rotation have no PAIRS, and those that
// rotate all elements no REST.
Space append_space(DType, const Problem& p, Device device) {
  const std::int64_t width = p["D"], rotated = p["R"];
  Space space;
  space.oneof(VALUES, {width})
      .oneof(PAIRS, {std::max<std::int64_t>(rotated / 2, 1)})
      .oneof(REST, {rotated < width ? width - rotated : width});
  add_tile(space, p, device, detail::append_config(device, p["H"], p["T"], width), width);
  return space;
}

void call_rotary(Stream& stream, DType dtype, const Problem& p) {
  const auto heads = [&] { return detail::stand_in_array(dtype, {p["B"], p["H"], p["T"], p["D"]}); };
  ops::rotary(stream, Input(heads()), Output(heads()));
}
// The sequences have 0 to 1023 tokens before the call.
void call_append(Stream& stream, DType dtype, const Problem& p) {
  constexpr std::int64_t most_before = 1024;
  const std::int64_t rotated = std::min(p["R"], p["D"]) / 2 * 2;
  const auto fresh = [&] { return detail::stand_in_array(dtype, {p["B"], p["H"], p["T"], p["D"]}); };
  const auto cached = [&] {
    return detail::stand_in_array(dtype, {p["B"], p["H"], p["T"] + most_before, p["D"]});
  };
  auto lengths = Tensor<std::int32_t, 1>::empty({p["B"]});
  for (std::int64_t b = 0; b < p["B"]; ++b)
    lengths.data()[b] = static_cast<std::int32_t>(most_before * b / p["B"]);
  const auto before = lengths.to(stream.device());
  AppendOptions options;
  if (rotated > 0) options.rotary = RotaryOptions{.width = rotated};
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
        .summary = "appends keys and values to a cache, and rotates R elements of each key",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "B=8,H=8,T=128,D=128,R=128",
        .call = call_append,
    },
    append_space);

} // namespace
} // namespace kiln::ops
