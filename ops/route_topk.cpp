// Implements the choice of experts for tokens.
#include <kiln/ops/routing.h>

#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/detail/heuristics.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>

#include <bit>
#include <cmath>
#include <optional>

namespace kiln::ops {
namespace {

KILN_DIM(TOKENS);
KILN_DIM(EXPERTS);
KILN_DIM(SLOTS);

using detail::ErasedView;
using detail::Handle;
using detail::OpVariant;

constexpr std::uint32_t by_sigmoid = 1, renormalised = 2, biased = 4;

// The parameters are logits, bias (optional), experts, weights, scale.
void route_body(const OpVariant& v, const Handle* next) {
  detail::with_compute_type(v, [&]<class A>(A) {
    ErasedView<A, 2> logits(*next++);
    std::optional<ErasedView<A, 1>> bias;
    if (v.options & biased) bias.emplace(*next++);
    ErasedView<std::int64_t, 2> experts(*next++);
    ErasedView<A, 2> weights(*next++);
    Scalar<A> scale(*next++);
    expects(logits.rows() == experts.rows(), "logits' rows and experts' rows");
    expects(logits.cols() <= dim_size(EXPERTS), "logits' columns and EXPERTS, which must cover them");

    auto [token] = program_tile(logits.view(), TOKENS);
    const auto expert = offset(EXPERTS, 0);
    const auto slot = offset(SLOTS, 0);
    Tile x = logits.tile(token, expert).load_or(static_cast<A>(-INFINITY));
    Tile score = sigmoid(x);
    if (!(v.options & by_sigmoid)) {
      Tile e = exp(x - max(x, EXPERTS, keep));
      score = e / sum(e, EXPERTS, keep);
    }
    Tile choice = x;
    if (bias)
      choice = where(expert + arange(EXPERTS) < logits.cols(), score + bias->tile(expert).load(),
                     static_cast<A>(-INFINITY));
    auto [top, at] = topk(choice, SLOTS, EXPERTS);
    Tile w = gather(score, at, EXPERTS);
    if (v.options & renormalised) w = w / sum(w, SLOTS, keep);
    experts.tile(token, slot).store(cast<std::int64_t>(at));
    weights.tile(token, slot).store(w * scale);
  });
}

constinit const detail::OpKernel route_kernel("route_topk", route_body);

} // namespace

void route_topk(detail::StreamAt stream, const Input& logits_, const Output& experts_, const Output& weights_,
                const RouteOptions& options) {
  const detail::Checks check("ops::route_topk", stream);
  const Array &logits = logits_.array(), &experts = experts_.array(), &weights = weights_.array();
  for (const detail::Argument& argument :
       {detail::Argument{"logits", logits}, {"experts", experts}, {"weights", weights}})
    check.rank(argument, 2);
  check.floats({"logits", logits});
  check.floats({"weights", weights});
  check.that(experts.dtype == DType::I32 || experts.dtype == DType::I64,
             "experts are of neither i32 nor i64; pass a tensor of one of these dtypes");
  check.same_extents({"experts", experts}, {"weights", weights});
  check.equal("logits' rows and experts' rows", logits.extents[0], experts.extents[0]);
  check.that(experts.extents[1] <= logits.extents[1],
             "experts has more columns than logits; choose at most as many experts as there are");
  check.that(logits.extents[1] <= 4096, "there are more than 4096 experts; route in groups of experts");
  check.writes({"experts", experts});
  check.writes({"weights", weights});
  check.apart({"experts", experts}, {"logits", logits});
  check.apart({"weights", weights}, {"logits", logits});
  check.apart({"weights", weights}, {"experts", experts});
  if (options.bias.given()) {
    const detail::Argument bias{"bias", options.bias.array()};
    check.rank(bias, 1);
    check.floats(bias);
    check.equal("bias's size and logits' columns", bias.array.extents[0], logits.extents[1]);
    check.apart({"experts", experts}, bias);
    check.apart({"weights", weights}, bias);
  }
  if (experts.size() == 0) return;

  const OpVariant variant{detail::compute_dtype({&logits, &weights}),
                          (options.scores == RouterScores::sigmoid ? by_sigmoid : 0) |
                              (options.renormalise ? renormalised : 0) | (options.bias.given() ? biased : 0)};
  detail::OpArguments list{logits};
  list.add_if(options.bias.given(), options.bias);
  list.add(experts);
  list.add(weights);
  list.add({variant.compute, options.scale});
  const std::int64_t tokens = logits.extents[0], count = logits.extents[1], slots = experts.extents[1];
  auto config =
      detail::known_config("route_topk", stream, {tokens, count, slots}, {route_kernel, variant, list});
  if (!config) config = detail::route_config(count, slots);
  route_kernel.launch(stream, *config, variant, list);
}

Config detail::route_config(std::int64_t experts, std::int64_t slots) {
  const auto width = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(experts)));
  return {TOKENS = width <= 256 ? 4 : 1, EXPERTS = width, SLOTS = slots};
}

namespace {

const cli::KernelRegistration registered_route({
    .name = "route_topk",
    .summary = "the experts of each token with the largest softmax, f32",
    .record =
        [](const Config& config) {
          return route_kernel.record(config, {DType::F32, 0},
                                     {detail::reading(DType::F32, 2),
                                      detail::writing(DType::I32, 2),
                                      detail::writing(DType::F32, 2),
                                      {DType::F32, 1.0}});
        },
    .config = "TOKENS=4,EXPERTS=64,SLOTS=8",
    .sizes = "T=4096,E=64,K=8",
    .parameters = "logits=T,E experts=T,K weights=T,K scale=1",
});

} // namespace
} // namespace kiln::ops
