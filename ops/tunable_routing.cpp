// Registers the routing of tokens to experts with the tuner.
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/spaces.h>
#include <kiln/ops/dims.h>
#include <kiln/ops/routing.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace kiln::ops {
namespace {

using tune::Choice;
using tune::Problem;
using tune::Space;

// A program has a part of one row.
Space row_part_space(DType, const Problem& p, Device device) {
  Space space;
  space.pow2(BN, 1, 1 << 15);
  space.require("a part is not much wider than the row",
                [](const Choice& c, const Problem& p) { return c[BN] < 2 * p["N"]; });
  space.require("a part is worth a program",
                [](const Choice& c, const Problem& p) { return c[BN] >= 64 || c[BN] >= p["N"]; });
  detail::seed_tile(space, device, detail::row_part_config(device, p["N"]), 1 << 15,
                    [](const Choice& c) { return c[BN]; });
  detail::keep_order(space);
  return space;
}

Space route_space(DType, const Problem& p, Device device) {
  const std::int64_t width = detail::pow2_above(p["E"]);
  Space space;
  space.pow2("TOKENS", 1, 64).oneof("EXPERTS", {width}).oneof("SLOTS", {p["K"]});
  space.require("there are so many tokens", [](const Choice& c, const Problem& p) {
    return c["TOKENS"] <= 4 || c["TOKENS"] < 2 * p["T"];
  });
  detail::seed_tile(space, device, detail::route_config(p["E"], p["K"]), 1 << 14,
                    [width](const Choice& c) { return c["TOKENS"] * width; });
  space.keeps_order({"TOKENS"});
  return space;
}

// The numbers from 0 to count - 1 in a random order, which is always the same.
std::vector<std::int32_t> shuffled(std::int64_t count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::mt19937_64 random(1);
  for (std::size_t i = numbers.size(); i-- > 1;)
    std::swap(numbers[i], numbers[random() % (i + 1)]);
  return numbers;
}

void call_permute(Stream& stream, DType dtype, const Problem& p) {
  const std::int64_t rows = p["R"], slots = 2, tokens = (rows + slots - 1) / slots;
  auto order = Tensor<std::int32_t, 1>::empty({rows});
  std::ranges::copy(shuffled(rows), order.begin());
  const auto indices = order.to(stream.device());
  ops::permute_rows(stream, Input(detail::stand_in_array(dtype, {tokens, p["N"]})), indices,
                    Output(detail::stand_in_array(dtype, {rows, p["N"]})), {.slots = slots});
}
void call_combine(Stream& stream, DType dtype, const Problem& p) {
  const std::int64_t tokens = p["T"], slots = p["K"];
  auto place = Tensor<std::int32_t, 2>::empty({tokens, slots});
  std::ranges::copy(shuffled(tokens * slots), place.begin());
  const auto indices = place.to(stream.device());
  ops::combine_rows(stream, Input(detail::stand_in_array(dtype, {tokens * slots, p["N"]})), indices,
                    Input(detail::stand_in_array(DType::F32, {tokens, slots})),
                    Output(detail::stand_in_array(dtype, {tokens, p["N"]})));
}
void call_route(Stream& stream, DType dtype, const Problem& p) {
  ops::route_topk(stream, Input(detail::stand_in_array(dtype, {p["T"], p["E"]})),
                  Output(detail::stand_in_array(DType::I32, {p["T"], p["K"]})),
                  Output(detail::stand_in_array(DType::F32, {p["T"], p["K"]})));
}

const detail::TunableOp tunable_permute(
    {
        .name = "permute_rows",
        .summary = "the R rows of tokens with two slots in the order of experts",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "R=4096,N=4096",
        .call = call_permute,
    },
    row_part_space);
const detail::TunableOp tunable_combine(
    {
        .name = "combine_rows",
        .summary = "the weighted sums of the K rows of each token",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "T=512,N=4096,K=8",
        .call = call_combine,
    },
    row_part_space);
const detail::TunableOp tunable_route(
    {
        .name = "route_topk",
        .summary = "the K experts of each token, of E, and their weights",
        .dtypes = {DType::F32, DType::F64, DType::BF16, DType::F16},
        .sizes = "T=4096,E=64,K=8",
        .call = call_route,
    },
    route_space);

} // namespace
} // namespace kiln::ops
