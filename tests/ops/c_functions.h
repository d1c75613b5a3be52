// Defines Functions, all C functions with options and tensors of the CPU, and the calls of C++ that do the same.
#pragma once

#include "arena.h"
#include "dl_tensor.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::test {

using Tensors = std::vector<DLTensor*>;

// A C function and its op, on tensors of the CPU.
struct Function {
  std::string name;
  std::vector<Dl> tensors;
  std::function<int(const Tensors&)> in_c;
  std::function<void(Stream&)> in_cpp;

  int call() { return in_c(pointers()); }
  Tensors pointers() {
    Tensors list;
    for (Dl& t : tensors)
      list.push_back(t);
    return list;
  }
};

// All C functions, with options.
class Functions : public Arena {
public:
  Functions() : Arena(Device::cpu()) {
    add_products();
    add_rows();
    add_elementwise();
    add_attention();
    add_cache();
    add_routing();
  }
  std::vector<Function>& list() { return list_; }

private:
  void add(const char* name, const std::vector<Dl>& tensors, std::function<int(const Tensors&)> in_c,
           std::function<void(Stream&)> in_cpp) {
    list_.push_back({name, tensors, std::move(in_c), std::move(in_cpp)});
  }

  void add_products() {
    constexpr std::int64_t m = 7, n = 9, k = 5;
    auto a = input<float>(std::array{m, k});
    auto b = input<bf16>(std::array{k, n});
    auto c = result<double>(std::array{m, n});
    auto bias = input<float>(std::array{n});
    auto r = input<f16>(std::array{m, n}), times = input<f16>(std::array{m, n});
    add(
        "kiln_matmul", {a, b, c, bias, times, r},
        [](const Tensors& t) {
          KilnMatmulOptions o = KILN_MATMUL_DEFAULTS;
          o.activation = "gelu", o.alpha = 0.5, o.bias = t[3], o.times = t[4], o.residual = t[5];
          return kiln_matmul(t[0], t[1], t[2], &o);
        },
        [=](Stream& s) { ops::matmul(s, a, b, c, {ops::Activation::gelu, 0.5, 0, bias, times, r}); });
    const auto small = [](Random& random, std::int64_t) { return random.integer(0, 100); };
    auto of_a = input<std::uint8_t>(std::array{m, k}, small);
    auto of_b = input<std::uint8_t>(std::array{k, n}, small);
    auto i32 = result<std::int32_t>(std::array{m, n});
    add(
        "kiln_matmul", {of_a, of_b, i32},
        [](const Tensors& t) { return kiln_matmul(t[0], t[1], t[2], nullptr); },
        [=](Stream& s) { ops::matmul(s, of_a, of_b, i32); });
    add(
        "kiln_linear", {a, b, bias, c},
        [](const Tensors& t) {
          KilnMatmulOptions o = KILN_MATMUL_DEFAULTS;
          o.activation = "silu", o.precision = "tf32";
          return kiln_linear(t[0], t[1], t[2], t[3], &o);
        },
        [=](Stream& s) { ops::linear(s, a, b, bias, c, {.activation = ops::Activation::silu}); });
    auto da = result<float>(std::array{m, k}), db = result<float>(std::array{k, n});
    auto dbias = result<float>(std::array{n});
    add(
        "kiln_matmul_backward", {a, b, r, da, db},
        [](const Tensors& t) {
          KilnMatmulBackwardOptions o = KILN_MATMUL_BACKWARD_DEFAULTS;
          o.alpha = 2;
          return kiln_matmul_backward(t[0], t[1], t[2], t[3], t[4], &o);
        },
        [=](Stream& s) { ops::matmul_backward(s, a, b, r, da, db, {.alpha = 2}); });
    add(
        "kiln_linear_backward", {a, b, r, times, dbias},
        [](const Tensors& t) {
          KilnMatmulBackwardOptions o = KILN_MATMUL_BACKWARD_DEFAULTS;
          o.activation = "gelu", o.before = t[3], o.dbias = t[4];
          return kiln_linear_backward(t[0], t[1], t[2], nullptr, nullptr, &o);
        },
        [=](Stream& s) {
          ops::linear_backward(s, a, b, r, {}, {},
                               {.activation = ops::Activation::gelu, .before = times, .dbias = dbias});
        });
    constexpr std::int64_t groups = 3;
    auto of_groups = input<float>(std::array{groups, k, n}),
         dgroups = result<float>(std::array{groups, k, n});
    auto group_bias = input<float>(std::array{groups, n});
    auto ends = input<std::int64_t>(std::array{groups + 1},
                                    [](Random&, std::int64_t i) { return i == groups ? m : 2 * i; });
    add(
        "kiln_grouped_matmul", {a, of_groups, ends, c, group_bias},
        [](const Tensors& t) {
          KilnMatmulOptions o = KILN_MATMUL_DEFAULTS;
          o.activation = "relu", o.bias = t[4];
          return kiln_grouped_matmul(t[0], t[1], t[2], t[3], &o);
        },
        [=](Stream& s) {
          ops::grouped_matmul(s, a, of_groups, ends, c,
                              {.activation = ops::Activation::relu, .bias = group_bias});
        });
    add(
        "kiln_grouped_matmul_backward_b", {a, r, ends, dgroups},
        [](const Tensors& t) {
          KilnGroupedBackwardOptions o = KILN_GROUPED_BACKWARD_DEFAULTS;
          o.alpha = 3;
          return kiln_grouped_matmul_backward_b(t[0], t[1], t[2], t[3], &o);
        },
        [=](Stream& s) { ops::grouped_matmul_backward_b(s, a, r, ends, dgroups, {.alpha = 3}); });
  }

  void add_rows() {
    constexpr std::int64_t m = 6, n = 11;
    auto x = input<float>(std::array{m, n}), dy = input<float>(std::array{m, n}),
         more = input<float>(std::array{m, n});
    auto y = result<bf16>(std::array{m, n});
    auto sum = result<float>(std::array{m, n});
    auto gamma = input<double>(std::array{n}), beta = input<double>(std::array{n});
    auto dgamma = result<float>(std::array{n}), dbeta = result<float>(std::array{n});
    const auto first_axis = [] {
      KilnSoftmaxOptions o = KILN_SOFTMAX_DEFAULTS;
      o.axis = 0;
      return o;
    };
    add(
        "kiln_softmax", {x, y}, [](const Tensors& t) { return kiln_softmax(t[0], t[1], nullptr); },
        [=](Stream& s) { ops::softmax(s, x, y); });
    add(
        "kiln_log_softmax", {x, y},
        [=](const Tensors& t) {
          const auto o = first_axis();
          return kiln_log_softmax(t[0], t[1], &o);
        },
        [=](Stream& s) { ops::log_softmax(s, x, y, {.axis = 0}); });
    add(
        "kiln_softmax_backward", {x, dy, y},
        [](const Tensors& t) { return kiln_softmax_backward(t[0], t[1], t[2], nullptr); },
        [=](Stream& s) { ops::softmax_backward(s, x, dy, y); });
    add(
        "kiln_log_softmax_backward", {x, dy, y},
        [=](const Tensors& t) {
          const auto o = first_axis();
          return kiln_log_softmax_backward(t[0], t[1], t[2], &o);
        },
        [=](Stream& s) { ops::log_softmax_backward(s, x, dy, y, {.axis = 0}); });
    add(
        "kiln_layernorm", {x, gamma, beta, y},
        [](const Tensors& t) {
          KilnNormOptions o = KILN_NORM_DEFAULTS;
          o.eps = 1e-3;
          return kiln_layernorm(t[0], t[1], t[2], t[3], &o);
        },
        [=](Stream& s) { ops::layernorm(s, x, gamma, beta, y, {1e-3}); });
    add(
        "kiln_rmsnorm", {x, gamma, y, more, sum},
        [](const Tensors& t) {
          KilnNormOptions o = KILN_NORM_DEFAULTS;
          o.residual = t[3], o.sum = t[4];
          return kiln_rmsnorm(t[0], t[1], t[2], &o);
        },
        [=](Stream& s) { ops::rmsnorm(s, x, gamma, y, {.residual = more, .sum = sum}); });
    add(
        "kiln_layernorm_backward", {x, gamma, dy, sum, dgamma, dbeta, more},
        [](const Tensors& t) {
          KilnNormBackwardOptions o = KILN_NORM_BACKWARD_DEFAULTS;
          o.eps = 1e-3, o.dsum = t[6];
          return kiln_layernorm_backward(t[0], t[1], t[2], t[3], t[4], t[5], &o);
        },
        [=](Stream& s) {
          ops::layernorm_backward(s, x, gamma, dy, sum, dgamma, dbeta, {.eps = 1e-3, .dsum = more});
        });
    add(
        "kiln_rmsnorm_backward", {x, dy, beta},
        [](const Tensors& t) {
          KilnNormBackwardOptions o = KILN_NORM_BACKWARD_DEFAULTS;
          o.accumulate = 1;
          return kiln_rmsnorm_backward(t[0], nullptr, t[1], nullptr, t[2], &o);
        },
        [=](Stream& s) { ops::rmsnorm_backward(s, x, {}, dy, {}, beta, {.accumulate = true}); });
  }

  void add_elementwise() {
    constexpr std::int64_t m = 5, n = 8;
    auto x = input<float>(std::array{m, n}), dy = input<float>(std::array{m, n});
    auto up = input<f16>(std::array{m, n});
    auto y = result<bf16>(std::array{m, n}), z = result<bf16>(std::array{m, n});
    using ops::Activation;
    add(
        "kiln_activation", {x, y}, [](const Tensors& t) { return kiln_activation(t[0], t[1], "relu"); },
        [=](Stream& s) { ops::activation(s, x, y, Activation::relu); });
    add(
        "kiln_activation_mul", {x, up, y},
        [](const Tensors& t) { return kiln_activation_mul(t[0], t[1], t[2], "silu"); },
        [=](Stream& s) { ops::activation_mul(s, x, up, y); });
    add(
        "kiln_activation_backward", {x, dy, y},
        [](const Tensors& t) { return kiln_activation_backward(t[0], t[1], t[2], "gelu"); },
        [=](Stream& s) { ops::activation_backward(s, x, dy, y, Activation::gelu); });
    add(
        "kiln_activation_mul_backward", {x, up, dy, y, z},
        [](const Tensors& t) { return kiln_activation_mul_backward(t[0], t[1], t[2], t[3], t[4], "gelu"); },
        [=](Stream& s) { ops::activation_mul_backward(s, x, up, dy, y, z, Activation::gelu); });
    add(
        "kiln_dropout", {x, y},
        [](const Tensors& t) {
          KilnDropoutOptions o = KILN_DROPOUT_DEFAULTS;
          o.probability = 0.25, o.seed = 77, o.first = 5, o.whole_columns = 1000;
          return kiln_dropout(t[0], t[1], &o);
        },
        [=](Stream& s) {
          ops::dropout(s, x, y, {.probability = 0.25, .seed = 77, .first = 5, .whole_columns = 1000});
        });
  }

  void add_attention() {
    constexpr std::int64_t heads = 4, key_heads = 2, queries = 9, keys = 13, width = 16;
    auto q = input<float>(std::array{heads, queries, width}),
         dout = input<float>(std::array{heads, queries, width}),
         o = result<float>(std::array{heads, queries, width}),
         dq = result<float>(std::array{heads, queries, width});
    auto k = input<float>(std::array{key_heads, keys, width}),
         v = input<float>(std::array{key_heads, keys, width}),
         dk = result<float>(std::array{key_heads, keys, width}),
         dv = result<float>(std::array{key_heads, keys, width});
    auto lse = result<float>(std::array{heads, queries});
    auto sums = input<float>(std::array{heads, queries}, [](Random& r, auto) { return r.uniform(3, 4); });
    auto sinks = input<float>(std::array{heads}), dsinks = result<float>(std::array{heads});
    const auto options = [] {
      KilnAttentionOptions o = KILN_ATTENTION_DEFAULTS;
      o.scale = 0.5, o.causal = 1, o.align_last = 1, o.window_before = 7, o.soft_cap = 2;
      o.dropout = 0.25, o.seed = 5, o.first_head = 3, o.whole_heads = 9;
      return o;
    };
    ops::AttentionOptions same{.scale = 0.5,
                               .causal = true,
                               .alignment = ops::CausalAlignment::last,
                               .window_before = 7,
                               .soft_cap = 2,
                               .dropout = 0.25,
                               .seed = 5,
                               .first_head = 3,
                               .whole_heads = 9,
                               .sinks = sinks};
    add(
        "kiln_attention", {q, k, v, o, sinks, lse},
        [=](const Tensors& t) {
          auto o = options();
          o.sinks = t[4], o.lse = t[5];
          return kiln_attention(t[0], t[1], t[2], t[3], &o);
        },
        [=](Stream& s) mutable {
          same.lse = lse;
          ops::attention(s, q, k, v, o, same);
        });
    add(
        "kiln_attention_backward", {dout, q, k, v, dout, sums, dq, dk, dv, sinks, dsinks},
        [=](const Tensors& t) {
          auto o = options();
          o.sinks = t[9], o.dsinks = t[10];
          return kiln_attention_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], &o);
        },
        [=](Stream& s) mutable {
          same.dsinks = dsinks;
          ops::attention_backward(s, dout, q, k, v, dout, sums, dq, dk, dv, same);
        });
    const auto begins = [&](std::int64_t first, std::int64_t all) {
      return input<std::int32_t>(std::array{std::int64_t{3}}, [first, all](Random&, std::int64_t i) {
        return i == 0 ? 0 : i == 1 ? first : all;
      });
    };
    auto query_begins = begins(4, queries), key_begins = begins(6, keys);
    add(
        "kiln_attention", {q, k, v, o, query_begins, key_begins},
        [](const Tensors& t) {
          KilnAttentionOptions o = KILN_ATTENTION_DEFAULTS;
          o.causal = 1, o.query_offsets = t[4], o.key_offsets = t[5], o.batch_invariant = 1;
          return kiln_attention(t[0], t[1], t[2], t[3], &o);
        },
        [=](Stream& s) {
          ops::attention(s, q, k, v, o,
                         {.causal = true,
                          .query_offsets = query_begins,
                          .key_offsets = key_begins,
                          .batch_invariant = true});
        });
    auto angles = input<float>(std::array{queries, width / 2});
    auto rotated = result<bf16>(std::array{heads, queries, width});
    add(
        "kiln_rotary", {q, rotated, angles, angles},
        [](const Tensors& t) {
          KilnRotaryOptions o = KILN_ROTARY_DEFAULTS;
          o.cos = t[2], o.sin = t[3];
          return kiln_rotary(t[0], t[1], &o);
        },
        [=](Stream& s) { ops::rotary(s, q, rotated, {.cos = angles, .sin = angles}); });
    auto positions =
        input<std::int64_t>(std::array{queries}, [](Random& r, auto) { return r.integer(0, 99); });
    add(
        "kiln_rotary_backward", {q, rotated, positions},
        [](const Tensors& t) {
          KilnRotaryOptions o = KILN_ROTARY_DEFAULTS;
          o.pairs = "interleaved", o.width = 8, o.theta = 500, o.positions = t[2], o.offset = 3;
          return kiln_rotary_backward(t[0], t[1], &o);
        },
        [=](Stream& s) {
          ops::rotary_backward(s, q, rotated,
                               {.pairs = ops::RotaryPairs::interleaved,
                                .width = 8,
                                .theta = 500,
                                .positions = positions,
                                .offset = 3});
        });
  }

  void add_cache() {
    constexpr std::int64_t batch = 2, heads = 4, key_heads = 2, width = 16, pages = 5, page = 8;
    auto keys = input<bf16>(std::array{batch, key_heads, 3 * page, width}),
         values = input<bf16>(std::array{batch, key_heads, 3 * page, width});
    const auto small = [](Random& r, std::int64_t) { return r.integer(-127, 127); };
    const auto scale = [](Random& r, std::int64_t) { return r.uniform(0.001, 0.01); };
    auto key_pages = input<std::int8_t>(std::array{pages, key_heads, page, width}, small),
         value_pages = input<std::int8_t>(std::array{pages, key_heads, page, width}, small);
    auto key_scales = input<float>(std::array{pages, key_heads, page}, scale),
         value_scales = input<float>(std::array{pages, key_heads, page}, scale);
    auto blocks = input<std::int32_t>(std::array{batch, std::int64_t{2}},
                                      [](Random&, std::int64_t i) { return pages - 1 - i; });
    auto lengths = input<std::int32_t>(std::array{batch}, [](Random& r, auto) { return r.integer(0, 15); });
    auto k = input<float>(std::array{batch, key_heads, width}),
         v = input<float>(std::array{batch, key_heads, width});
    auto q = input<float>(std::array{batch, heads, width}),
         rotated = result<float>(std::array{batch, heads, width}),
         o = result<float>(std::array{batch, heads, width});
    auto lse = result<float>(std::array{batch, heads});
    const auto paged = [](const Tensors& t, std::size_t first) {
      KilnKeyValueCache c = KILN_KEY_VALUE_CACHE_DEFAULTS;
      c.keys = t[first], c.values = t[first + 1], c.blocks = t[first + 2];
      c.key_scales = t[first + 3], c.value_scales = t[first + 4];
      return c;
    };
    const ops::KeyValueCache whole_cache{.keys = keys, .values = values},
        paged_cache{.keys = key_pages,
                    .values = value_pages,
                    .blocks = blocks,
                    .key_scales = key_scales,
                    .value_scales = value_scales};
    add(
        "kiln_cache_append", {k, v, lengths, keys, values, q, rotated},
        [](const Tensors& t) {
          KilnKeyValueCache c = KILN_KEY_VALUE_CACHE_DEFAULTS;
          c.keys = t[3], c.values = t[4];
          KilnRotaryOptions r = KILN_ROTARY_DEFAULTS;
          r.offset = 1;
          KilnAppendOptions o = KILN_APPEND_DEFAULTS;
          o.rotary = &r, o.q = t[5], o.rotated_q = t[6];
          return kiln_cache_append(t[0], t[1], t[2], &c, &o);
        },
        [=](Stream& s) {
          ops::cache_append(s, k, v, lengths, whole_cache,
                            {.rotary = ops::RotaryOptions{.offset = 1}, .q = q, .rotated_q = rotated});
        });
    add(
        "kiln_cache_append", {k, v, lengths, key_pages, value_pages, blocks, key_scales, value_scales},
        [=](const Tensors& t) {
          const auto c = paged(t, 3);
          return kiln_cache_append(t[0], t[1], t[2], &c, nullptr);
        },
        [=](Stream& s) { ops::cache_append(s, k, v, lengths, paged_cache); });
    add(
        "kiln_attention_decode", {q, keys, values, lengths, o, lse},
        [](const Tensors& t) {
          KilnKeyValueCache c = KILN_KEY_VALUE_CACHE_DEFAULTS;
          c.keys = t[1], c.values = t[2];
          KilnDecodeOptions o = KILN_DECODE_DEFAULTS;
          o.scale = 0.2, o.appended = 1, o.causal = 0, o.window_before = 9, o.soft_cap = 3, o.lse = t[5];
          return kiln_attention_decode(t[0], &c, t[3], t[4], &o);
        },
        [=](Stream& s) {
          ops::attention_decode(
              s, q, whole_cache, lengths, o,
              {.scale = 0.2, .appended = 1, .causal = false, .window_before = 9, .soft_cap = 3, .lse = lse});
        });
    add(
        "kiln_attention_decode", {q, lengths, o, key_pages, value_pages, blocks, key_scales, value_scales},
        [=](const Tensors& t) {
          const auto c = paged(t, 3);
          return kiln_attention_decode(t[0], &c, t[1], t[2], nullptr);
        },
        [=](Stream& s) { ops::attention_decode(s, q, paged_cache, lengths, o); });
  }

  void add_routing() {
    constexpr std::int64_t tokens = 7, experts = 4, slots = 2, width = 6;
    auto logits = input<float>(std::array{tokens, experts});
    auto bias = input<float>(std::array{experts});
    auto chosen = result<std::int64_t>(std::array{tokens, slots});
    auto weights = result<float>(std::array{tokens, slots});
    auto some =
        input<std::int32_t>(std::array{tokens, slots}, [](Random& r, auto) { return r.integer(0, 3); });
    auto offsets = result<std::int32_t>(std::array{experts + 1}),
         order = result<std::int32_t>(std::array{tokens * slots});
    auto place = result<std::int32_t>(std::array{tokens, slots});
    const auto backwards = [](Random&, std::int64_t i) { return tokens * slots - 1 - i; };
    auto known_order = input<std::int32_t>(std::array{tokens * slots}, backwards);
    auto known_place = input<std::int32_t>(std::array{tokens, slots}, backwards);
    auto x = input<float>(std::array{tokens, width}), y = result<float>(std::array{tokens, width});
    auto rows = result<float>(std::array{tokens * slots, width}),
         many = input<float>(std::array{tokens * slots, width});
    add(
        "kiln_route_topk", {logits, chosen, weights, bias},
        [](const Tensors& t) {
          KilnRouteOptions o = KILN_ROUTE_DEFAULTS;
          o.scores = "sigmoid", o.renormalise = 1, o.scale = 2, o.bias = t[3];
          return kiln_route_topk(t[0], t[1], t[2], &o);
        },
        [=](Stream& s) {
          ops::route_topk(
              s, logits, chosen, weights,
              {.scores = ops::RouterScores::sigmoid, .renormalise = true, .scale = 2, .bias = bias});
        });
    add(
        "kiln_group_by_expert", {some, offsets, order, place},
        [](const Tensors& t) { return kiln_group_by_expert(t[0], t[1], t[2], t[3]); },
        [=](Stream& s) { ops::group_by_expert(s, some, offsets, order, place); });
    add(
        "kiln_permute_rows", {x, known_order, rows},
        [](const Tensors& t) {
          KilnPermuteOptions o = KILN_PERMUTE_DEFAULTS;
          o.slots = slots;
          return kiln_permute_rows(t[0], t[1], t[2], &o);
        },
        [=](Stream& s) { ops::permute_rows(s, x, known_order, rows, {.slots = slots}); });
    add(
        "kiln_combine_rows", {many, known_place, y},
        [](const Tensors& t) { return kiln_combine_rows(t[0], t[1], nullptr, t[2]); },
        [=](Stream& s) { ops::combine_rows(s, many, known_place, {}, y); });
  }

  std::vector<Function> list_;
};

} // namespace kiln::test
