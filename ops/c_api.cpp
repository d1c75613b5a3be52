// Implements the C functions for products, norms, softmax, elementwise ops and mixtures of experts.
#include <kiln/ops/c_api.h>

#include <kiln/ops/c_call.h>
#include <kiln/ops/elementwise.h>
#include <kiln/ops/grouped_matmul.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/matmul_backward.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/routing.h>
#include <kiln/ops/softmax.h>

#include <algorithm>
#include <climits>
#include <cstddef>

using namespace kiln;
using ops::detail::CCall;
using ops::detail::run;

namespace {

constexpr const char* score_names[] = {"softmax", "sigmoid"};

ops::Activation activation(const CCall& call, const char* text) {
  const char* names[ops::activation_count];
  for (int i = 0; i < ops::activation_count; ++i)
    names[i] = ops::name(static_cast<ops::Activation>(i));
  return call.named<ops::Activation>("activation", text, names);
}
Precision precision(const CCall& call, const char* text) {
  return call.named<Precision>("precision", text, kiln::detail::precision_names);
}

ops::MatmulOptions matmul_options(const CCall& call, const KilnMatmulOptions* options) {
  const auto o = call.options(options, KILN_MATMUL_DEFAULTS);
  return {.activation = activation(call, o.activation),
          .alpha = o.alpha,
          .beta = o.beta,
          .bias = call.optional_input("bias", o.bias),
          .times = call.optional_input("times", o.times),
          .residual = call.optional_input("residual", o.residual),
          .precision = precision(call, o.precision),
          .batch_invariant = o.batch_invariant != 0};
}
ops::MatmulBackwardOptions backward_options(const CCall& call, const KilnMatmulBackwardOptions* options) {
  const auto o = call.options(options, KILN_MATMUL_BACKWARD_DEFAULTS);
  return {.activation = activation(call, o.activation),
          .before = call.optional_input("before", o.before),
          .alpha = o.alpha,
          .dbias = call.optional_output("dbias", o.dbias),
          .accumulate = o.accumulate != 0,
          .precision = precision(call, o.precision),
          .batch_invariant = o.batch_invariant != 0};
}
const DLTensor* dbias_of(const KilnMatmulBackwardOptions* options) {
  return options && options->size >= offsetof(KilnMatmulBackwardOptions, accumulate) ? options->dbias
                                                                                     : nullptr;
}
ops::SoftmaxOptions softmax_options(const CCall& call, const KilnSoftmaxOptions* options) {
  const auto o = call.options(options, KILN_SOFTMAX_DEFAULTS);
  return {.axis = static_cast<int>(std::clamp<int64_t>(o.axis, INT_MIN, INT_MAX)),
          .batch_invariant = o.batch_invariant != 0};
}
ops::NormOptions norm_options(const CCall& call, const KilnNormOptions* options) {
  const auto o = call.options(options, KILN_NORM_DEFAULTS);
  return {.eps = o.eps,
          .residual = call.optional_input("residual", o.residual),
          .sum = call.optional_output("sum", o.sum),
          .batch_invariant = o.batch_invariant != 0};
}
ops::NormBackwardOptions backward_options(const CCall& call, const KilnNormBackwardOptions* options) {
  const auto o = call.options(options, KILN_NORM_BACKWARD_DEFAULTS);
  return {.eps = o.eps,
          .residual = call.optional_input("residual", o.residual),
          .dsum = call.optional_input("dsum", o.dsum),
          .accumulate = o.accumulate != 0,
          .batch_invariant = o.batch_invariant != 0};
}

} // namespace

// --- Products ----------------------------------------------------------------------------------------------

int kiln_matmul(const DLTensor* a, const DLTensor* b, DLTensor* c, const KilnMatmulOptions* options) {
  return run("kiln_matmul", {"c", c}, [&](const CCall& call) {
    ops::matmul(call.at, call.input("a", a), call.input("b", b), call.output("c", c),
                matmul_options(call, options));
  });
}

int kiln_linear(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, DLTensor* y,
                const KilnMatmulOptions* options) {
  return run("kiln_linear", {"y", y}, [&](const CCall& call) {
    ops::linear(call.at, call.input("x", x), call.input("weight", weight), call.input("bias", bias),
                call.output("y", y), matmul_options(call, options));
  });
}

int kiln_matmul_backward(const DLTensor* a, const DLTensor* b, const DLTensor* dc, DLTensor* da, DLTensor* db,
                         const KilnMatmulBackwardOptions* options) {
  return run("kiln_matmul_backward", {{"da", da}, {"db", db}, {"dbias", dbias_of(options)}}, {"dc", dc},
             [&](const CCall& call) {
               ops::matmul_backward(call.at, call.input("a", a), call.input("b", b), call.input("dc", dc),
                                    call.optional_output("da", da), call.optional_output("db", db),
                                    backward_options(call, options));
             });
}

int kiln_linear_backward(const DLTensor* x, const DLTensor* weight, const DLTensor* dy, DLTensor* dx,
                         DLTensor* dweight, const KilnMatmulBackwardOptions* options) {
  return run("kiln_linear_backward", {{"dx", dx}, {"dweight", dweight}, {"dbias", dbias_of(options)}},
             {"dy", dy}, [&](const CCall& call) {
               ops::linear_backward(call.at, call.input("x", x), call.input("weight", weight),
                                    call.input("dy", dy), call.optional_output("dx", dx),
                                    call.optional_output("dweight", dweight),
                                    backward_options(call, options));
             });
}

int kiln_grouped_matmul(const DLTensor* a, const DLTensor* b, const DLTensor* offsets, DLTensor* c,
                        const KilnMatmulOptions* options) {
  return run("kiln_grouped_matmul", {"c", c}, [&](const CCall& call) {
    ops::grouped_matmul(call.at, call.input("a", a), call.input("b", b), call.input("offsets", offsets),
                        call.output("c", c), matmul_options(call, options));
  });
}

int kiln_grouped_matmul_backward_b(const DLTensor* a, const DLTensor* dc, const DLTensor* offsets,
                                   DLTensor* db, const KilnGroupedBackwardOptions* options) {
  return run("kiln_grouped_matmul_backward_b", {"db", db}, [&](const CCall& call) {
    const auto o = call.options(options, KILN_GROUPED_BACKWARD_DEFAULTS);
    ops::grouped_matmul_backward_b(call.at, call.input("a", a), call.input("dc", dc),
                                   call.input("offsets", offsets), call.output("db", db),
                                   {.alpha = o.alpha, .beta = o.beta});
  });
}

// --- Normalisation -----------------------------------------------------------------------------------------

int kiln_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options) {
  return run("kiln_softmax", {"y", y}, [&](const CCall& call) {
    ops::softmax(call.at, call.input("x", x), call.output("y", y), softmax_options(call, options));
  });
}

int kiln_log_softmax(const DLTensor* x, DLTensor* y, const KilnSoftmaxOptions* options) {
  return run("kiln_log_softmax", {"y", y}, [&](const CCall& call) {
    ops::log_softmax(call.at, call.input("x", x), call.output("y", y), softmax_options(call, options));
  });
}

int kiln_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx,
                          const KilnSoftmaxOptions* options) {
  return run("kiln_softmax_backward", {"dx", dx}, [&](const CCall& call) {
    ops::softmax_backward(call.at, call.input("y", y), call.input("dy", dy), call.output("dx", dx),
                          softmax_options(call, options));
  });
}

int kiln_log_softmax_backward(const DLTensor* y, const DLTensor* dy, DLTensor* dx,
                              const KilnSoftmaxOptions* options) {
  return run("kiln_log_softmax_backward", {"dx", dx}, [&](const CCall& call) {
    ops::log_softmax_backward(call.at, call.input("y", y), call.input("dy", dy), call.output("dx", dx),
                              softmax_options(call, options));
  });
}

int kiln_layernorm(const DLTensor* x, const DLTensor* gamma, const DLTensor* beta, DLTensor* y,
                   const KilnNormOptions* options) {
  return run("kiln_layernorm", {"y", y}, [&](const CCall& call) {
    ops::layernorm(call.at, call.input("x", x), call.optional_input("gamma", gamma),
                   call.optional_input("beta", beta), call.output("y", y), norm_options(call, options));
  });
}

int kiln_rmsnorm(const DLTensor* x, const DLTensor* gamma, DLTensor* y, const KilnNormOptions* options) {
  return run("kiln_rmsnorm", {"y", y}, [&](const CCall& call) {
    ops::rmsnorm(call.at, call.input("x", x), call.optional_input("gamma", gamma), call.output("y", y),
                 norm_options(call, options));
  });
}

int kiln_layernorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                            DLTensor* dgamma, DLTensor* dbeta, const KilnNormBackwardOptions* options) {
  return run("kiln_layernorm_backward", {{"dx", dx}, {"dgamma", dgamma}, {"dbeta", dbeta}}, {"dy", dy},
             [&](const CCall& call) {
               ops::layernorm_backward(call.at, call.input("x", x), call.optional_input("gamma", gamma),
                                       call.input("dy", dy), call.optional_output("dx", dx),
                                       call.optional_output("dgamma", dgamma),
                                       call.optional_output("dbeta", dbeta), backward_options(call, options));
             });
}

int kiln_rmsnorm_backward(const DLTensor* x, const DLTensor* gamma, const DLTensor* dy, DLTensor* dx,
                          DLTensor* dgamma, const KilnNormBackwardOptions* options) {
  return run("kiln_rmsnorm_backward", {{"dx", dx}, {"dgamma", dgamma}}, {"dy", dy}, [&](const CCall& call) {
    ops::rmsnorm_backward(call.at, call.input("x", x), call.optional_input("gamma", gamma),
                          call.input("dy", dy), call.optional_output("dx", dx),
                          call.optional_output("dgamma", dgamma), backward_options(call, options));
  });
}

// --- Elementwise -------------------------------------------------------------------------------------------

int kiln_activation(const DLTensor* x, DLTensor* y, const char* name) {
  return run("kiln_activation", {"y", y}, [&](const CCall& call) {
    ops::activation(call.at, call.input("x", x), call.output("y", y), activation(call, name));
  });
}

int kiln_activation_mul(const DLTensor* gate, const DLTensor* up, DLTensor* y, const char* name) {
  return run("kiln_activation_mul", {"y", y}, [&](const CCall& call) {
    ops::activation_mul(call.at, call.input("gate", gate), call.input("up", up), call.output("y", y),
                        activation(call, name));
  });
}

int kiln_activation_backward(const DLTensor* x, const DLTensor* dy, DLTensor* dx, const char* name) {
  return run("kiln_activation_backward", {"dx", dx}, [&](const CCall& call) {
    ops::activation_backward(call.at, call.input("x", x), call.input("dy", dy), call.output("dx", dx),
                             activation(call, name));
  });
}

int kiln_activation_mul_backward(const DLTensor* gate, const DLTensor* up, const DLTensor* dy,
                                 DLTensor* dgate, DLTensor* dup, const char* name) {
  return run("kiln_activation_mul_backward", {{"dgate", dgate}, {"dup", dup}}, {"dy", dy},
             [&](const CCall& call) {
               ops::activation_mul_backward(call.at, call.input("gate", gate), call.input("up", up),
                                            call.input("dy", dy), call.optional_output("dgate", dgate),
                                            call.optional_output("dup", dup), activation(call, name));
             });
}

int kiln_dropout(const DLTensor* x, DLTensor* y, const KilnDropoutOptions* options) {
  return run("kiln_dropout", {"y", y}, [&](const CCall& call) {
    const auto o = call.options(options, KILN_DROPOUT_DEFAULTS);
    ops::dropout(
        call.at, call.input("x", x), call.output("y", y),
        {.probability = o.probability, .seed = o.seed, .first = o.first, .whole_columns = o.whole_columns});
  });
}

// --- Mixtures of experts -----------------------------------------------------------------------------------

int kiln_route_topk(const DLTensor* logits, DLTensor* experts, DLTensor* weights,
                    const KilnRouteOptions* options) {
  return run("kiln_route_topk", {"weights", weights}, [&](const CCall& call) {
    const auto o = call.options(options, KILN_ROUTE_DEFAULTS);
    ops::route_topk(call.at, call.input("logits", logits), call.output("experts", experts),
                    call.output("weights", weights),
                    {.scores = call.named<ops::RouterScores>("scores", o.scores, score_names),
                     .renormalise = o.renormalise != 0,
                     .scale = o.scale,
                     .bias = call.optional_input("bias", o.bias)});
  });
}

int kiln_group_by_expert(const DLTensor* experts, DLTensor* offsets, DLTensor* order, DLTensor* place) {
  return run("kiln_group_by_expert", {"offsets", offsets}, [&](const CCall& call) {
    ops::group_by_expert(call.at, call.input("experts", experts), call.output("offsets", offsets),
                         call.output("order", order), call.output("place", place));
  });
}

int kiln_permute_rows(const DLTensor* x, const DLTensor* order, DLTensor* y,
                      const KilnPermuteOptions* options) {
  return run("kiln_permute_rows", {"y", y}, [&](const CCall& call) {
    const auto o = call.options(options, KILN_PERMUTE_DEFAULTS);
    ops::permute_rows(call.at, call.input("x", x), call.input("order", order), call.output("y", y),
                      {.slots = o.slots});
  });
}

int kiln_combine_rows(const DLTensor* rows, const DLTensor* place, const DLTensor* weights, DLTensor* y) {
  return run("kiln_combine_rows", {"y", y}, [&](const CCall& call) {
    ops::combine_rows(call.at, call.input("rows", rows), call.input("place", place),
                      call.optional_input("weights", weights), call.output("y", y));
  });
}
