// Defines EveryOp, a call of each op on tensors in one block of memory, for tests of what holds for all ops.
//
//   EveryOp ops(device, {.rows = 40});
//   for (const EveryOp::Call& call : ops.calls()) {
//     ops.fill(seed);                              // random inputs, and NaN in results
//     call.run(stream);
//     stream.synchronize();
//     const std::vector<unsigned char> bytes = ops.bytes();   // of all tensors, inputs included
//   }
#pragma once

#include "arena.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kiln::test {

class EveryOp : public Arena {
public:
  struct Sizes {
    std::int64_t batches = 2, heads = 4, key_heads = 2, tokens = 19, width = 16, columns = 24, experts = 3;
    std::int64_t inner = 20; // of products
    std::int64_t pages() const { return 2; }
    std::int64_t page_size() const { return tokens; }
  };
  struct Call {
    std::string name;
    std::function<void(Stream&)> run;
  };

  // For devices that an interpreter emulates.
  static Sizes small() { return {.tokens = 5, .columns = 9, .inner = 7}; }

  explicit EveryOp(Device device) : EveryOp(device, Sizes()) {}
  EveryOp(Device device, const Sizes& sizes) : Arena(device), s_(sizes) {
    add_products();
    add_rows();
    add_elementwise();
    add_attention();
    add_cache();
    add_routing();
  }

  const std::vector<Call>& calls() const { return calls_; }

private:
  template <class F> void add(std::string name, const F& run) { calls_.push_back({std::move(name), run}); }

  void add_products() {
    using ops::Activation;
    const auto [b, n, k, m] = std::tuple(s_.batches, s_.columns, s_.inner, s_.tokens);
    auto x = input<float>(std::array{b, m, k}), c = result<float>(std::array{b, m, n});
    auto w = input<float>(std::array{k, n});
    auto bias = input<float>(std::array{n});
    auto r = input<float>(std::array{b, m, n});
    add("matmul", [=](Stream& s) { ops::matmul(s, x, w, c); });
    add("matmul with an epilogue",
        [=](Stream& s) { ops::matmul(s, x, w, c, {Activation::gelu, 0.5, 0, bias, r, r}); });
    add("matmul with a lambda", [=](Stream& s) {
      ops::matmul(s, x, w, c, [](auto sum, auto at, auto v) { return sum + v.tile(at.n).load(); }, bias);
    });
    auto bx = input<bf16>(std::array{m, k}), bw = input<bf16>(std::array{k, n}),
         bc = result<bf16>(std::array{m, n});
    add("linear", [=](Stream& s) { ops::linear(s, bx, bw, bias, bc, {.activation = Activation::silu}); });
    auto row = input<bf16>(std::array{std::int64_t{1}, k});
    auto of_row = result<bf16>(std::array{std::int64_t{1}, n});
    add("matmul of one row", [=](Stream& s) { ops::matmul(s, row, bw, of_row); });
    const auto small = [](Random& random, std::int64_t) { return random.integer(-100, 100); };
    auto ix = input<std::int8_t>(std::array{m, k}, small), iw = input<std::int8_t>(std::array{k, n}, small);
    auto ic = result<std::int32_t>(std::array{m, n});
    add("matmul of integers", [=](Stream& s) { ops::matmul(s, ix, iw, ic); });

    auto dx = result<float>(std::array{b, m, k});
    auto dw = result<float>(std::array{k, n});
    auto dbias = result<float>(std::array{n});
    auto db = input<float>(std::array{n});
    add("matmul_backward", [=](Stream& s) {
      ops::matmul_backward(s, x, w, r, dx, dw, {.activation = Activation::gelu, .before = r, .dbias = dbias});
    });
    // dy has its batches between its rows, so that their sums are not part of one product.
    auto dy = input<bf16>(std::array{m, b, n});
    auto few = input<bf16>(std::array{k, n});
    add("linear_backward", [=](Stream& s) {
      ops::linear_backward(s, x, w, dy.permute({1, 0, 2}), {}, few, {.dbias = db, .accumulate = true});
    });
    auto grouped_b = input<float>(std::array{s_.experts, k, n}),
         dgrouped = result<float>(std::array{s_.experts, k, n});
    auto ends = input<std::int32_t>(std::array{s_.experts + 1}, [e = s_.experts, m](Random&, std::int64_t i) {
      return i == e ? m : i * m / e;
    });
    auto x0 = input<float>(std::array{m, k}), r0 = input<float>(std::array{m, n}),
         c0 = result<float>(std::array{m, n});
    add("grouped_matmul", [=](Stream& s) {
      ops::grouped_matmul(s, x0, grouped_b, ends, c0, {.activation = Activation::relu, .times = r0});
    });
    add("grouped_matmul_backward_b",
        [=](Stream& s) { ops::grouped_matmul_backward_b(s, x0, r0, ends, dgrouped); });
  }

  void add_rows() {
    const std::array extents{s_.batches, s_.tokens, s_.columns};
    auto x = input<float>(extents), dy = input<float>(extents), y = result<float>(extents);
    auto gamma = input<float>(std::array{s_.columns}), beta = input<float>(std::array{s_.columns});
    auto dgamma = result<float>(std::array{s_.columns}), dbeta = input<float>(std::array{s_.columns});
    auto half = result<bf16>(extents);
    add("softmax", [=](Stream& s) { ops::softmax(s, x, half); });
    add("softmax of the middle axis", [=](Stream& s) { ops::softmax(s, x, y, {.axis = 1}); });
    add("log_softmax", [=](Stream& s) { ops::log_softmax(s, x, y); });
    add("softmax_backward", [=](Stream& s) { ops::softmax_backward(s, x, dy, y); });
    add("log_softmax_backward", [=](Stream& s) { ops::log_softmax_backward(s, x, dy, y); });
    add("layernorm", [=](Stream& s) { ops::layernorm(s, x, gamma, beta, y); });
    add("rmsnorm", [=](Stream& s) { ops::rmsnorm(s, x, gamma, half, {.residual = dy, .sum = y}); });
    add("layernorm_backward", [=](Stream& s) {
      ops::layernorm_backward(s, x, gamma, dy, y, dgamma, dbeta, {.accumulate = false});
    });
    add("rmsnorm_backward",
        [=](Stream& s) { ops::rmsnorm_backward(s, x, gamma, dy, dy, dbeta, {.accumulate = true}); });
  }

  void add_elementwise() {
    const std::array extents{s_.batches, s_.tokens, s_.columns};
    auto x = input<float>(extents), y = result<float>(extents), z = result<float>(extents);
    auto up = input<bf16>(extents);
    using ops::Activation;
    add("activation", [=](Stream& s) { ops::activation(s, x, y, Activation::gelu); });
    add("activation_mul", [=](Stream& s) { ops::activation_mul(s, x, up, y); });
    add("activation_backward", [=](Stream& s) { ops::activation_backward(s, x, up, y, Activation::silu); });
    add("activation_mul_backward", [=](Stream& s) { ops::activation_mul_backward(s, x, up, x, y, z); });
    add("dropout", [=](Stream& s) { ops::dropout(s, x, x, {.probability = 0.3, .seed = 5}); });
  }

  void add_attention() {
    const std::array of_q{s_.batches, s_.heads, s_.tokens, s_.width},
        of_k{s_.batches, s_.key_heads, s_.tokens, s_.width};
    const std::array rows{s_.batches, s_.heads, s_.tokens};
    auto q = input<float>(of_q), k = input<float>(of_k), v = input<float>(of_k), o = result<float>(of_q),
         dout = input<float>(of_q), dq = result<float>(of_q), dk = result<float>(of_k),
         dv = result<float>(of_k);
    auto lse = result<float>(rows);
    auto sums = input<float>(rows, [](Random& random, std::int64_t) { return random.uniform(3, 4); });
    auto sinks = input<float>(std::array{s_.heads}), dsinks = result<float>(std::array{s_.heads});
    auto document = input<std::int32_t>(std::array{s_.batches, s_.tokens},
                                        [t = s_.tokens](Random&, std::int64_t i) { return i % t / 7; });
    const auto alibi = [](auto x, auto head, auto query, auto key, auto slopes) {
      return x + slopes.at(head).load() * cast<float>(key - query);
    };
    const auto same = [](auto head, auto query, auto key, auto ids) {
      return expand<1>(ids.tile(head.batch, query.offset).load()) ==
             expand<0>(ids.tile(head.batch, key.offset).load());
    };
    add("attention", [=](Stream& s) {
      ops::attention(s, q, k, v, o, {.causal = true, .dropout = 0.2, .seed = 3, .sinks = sinks, .lse = lse});
    });
    add("attention with lambdas", [=](Stream& s) {
      ops::attention(s, q, k, v, o, {}, ops::score(alibi, sinks), ops::mask(same, document));
    });
    add("attention_backward", [=](Stream& s) {
      ops::attention_backward(s, dout, q, k, v, dout, sums, dq, dk, dv,
                              {.causal = true, .sinks = sinks, .dsinks = dsinks});
    });
    add("attention_backward with lambdas", [=](Stream& s) {
      ops::attention_backward(s, dout, q, k, v, dout, sums, dq, {}, {}, {}, ops::score(alibi, sinks),
                              ops::mask(same, document));
    });
    auto half = result<bf16>(of_q);
    add("rotary", [=](Stream& s) { ops::rotary(s, q, half, {.offset = 3}); });
    add("rotary_backward",
        [=](Stream& s) { ops::rotary_backward(s, q, q, {.pairs = ops::RotaryPairs::interleaved}); });
  }

  void add_cache() {
    const std::int64_t pages = s_.pages(), page = s_.page_size(), all = s_.batches * pages;
    const std::array whole{s_.batches, s_.key_heads, pages * page, s_.width},
        paged{all, s_.key_heads, page, s_.width};
    const std::array token{s_.batches, s_.key_heads, s_.width}, query{s_.batches, s_.heads, s_.width};
    auto keys = input<float>(whole), values = input<float>(whole);
    auto key_pages = input<bf16>(paged), value_pages = input<bf16>(paged);
    const auto small = [](Random& random, std::int64_t) { return random.integer(-127, 127); };
    auto key_bytes = input<std::int8_t>(whole, small), value_bytes = input<std::int8_t>(whole, small);
    const auto scale = [](Random& random, std::int64_t) { return random.uniform(0.001, 0.01); };
    const std::array rows{s_.batches, s_.key_heads, pages * page};
    auto key_scales = input<float>(rows, scale), value_scales = input<float>(rows, scale);
    auto blocks = input<std::int32_t>(std::array{s_.batches, pages},
                                      [all](Random&, std::int64_t i) { return all - 1 - i; });
    auto lengths = input<std::int64_t>(
        std::array{s_.batches},
        [most = std::max<std::int64_t>(0, pages * page - 1)](Random& r, auto) { return r.integer(0, most); });
    auto k = input<float>(token), v = input<float>(token), q = input<float>(query),
         rotated = result<float>(query), o = result<float>(query);
    add("cache_append", [=](Stream& s) {
      ops::cache_append(s, k, v, lengths, {.keys = keys, .values = values},
                        {.rotary = ops::RotaryOptions{}, .q = q, .rotated_q = rotated});
    });
    add("cache_append to pages", [=](Stream& s) {
      ops::cache_append(s, k, v, lengths, {.keys = key_pages, .values = value_pages, .blocks = blocks});
    });
    const auto bytes = [=] {
      return ops::KeyValueCache{
          .keys = key_bytes, .values = value_bytes, .key_scales = key_scales, .value_scales = value_scales};
    };
    add("cache_append of bytes", [=](Stream& s) { ops::cache_append(s, k, v, lengths, bytes()); });
    add("attention_decode", [=](Stream& s) {
      ops::attention_decode(s, q, {.keys = keys, .values = values}, lengths, o, {.appended = 1});
    });
    add("attention_decode of pages", [=](Stream& s) {
      ops::attention_decode(s, q, {.keys = key_pages, .values = value_pages, .blocks = blocks}, lengths, o);
    });
    add("attention_decode of bytes",
        [=](Stream& s) { ops::attention_decode(s, q, bytes(), lengths, o, {.appended = 1}); });
  }

  void add_routing() {
    const std::int64_t t = s_.tokens, e = s_.experts, n = s_.columns, slots = std::min<std::int64_t>(2, e);
    auto logits = input<float>(std::array{t, e});
    auto chosen = result<std::int32_t>(std::array{t, slots});
    auto weights = input<float>(std::array{t, slots}), found = result<float>(std::array{t, slots});
    auto experts = input<std::int32_t>(
        std::array{t, slots}, [e](Random& random, std::int64_t) { return random.integer(-1, e - 1); });
    auto offsets = result<std::int32_t>(std::array{e + 1}),
         order = result<std::int32_t>(std::array{t * slots});
    auto place = result<std::int32_t>(std::array{t, slots});
    const auto backwards = [t, slots](Random&, std::int64_t i) {
      return t * slots - 1 - i;
    }; // its own inverse
    auto given_order = input<std::int32_t>(std::array{t * slots}, backwards);
    auto given_place = input<std::int32_t>(std::array{t, slots}, backwards);
    auto x = input<float>(std::array{t, n}), rows = result<float>(std::array{t * slots, n}),
         many = input<float>(std::array{t * slots, n}), y = result<float>(std::array{t, n});
    add("route_topk", [=](Stream& s) { ops::route_topk(s, logits, chosen, found, {.renormalise = true}); });
    add("group_by_expert", [=](Stream& s) { ops::group_by_expert(s, experts, offsets, order, place); });
    add("permute_rows", [=](Stream& s) { ops::permute_rows(s, x, given_order, rows, {.slots = slots}); });
    add("combine_rows", [=](Stream& s) { ops::combine_rows(s, many, given_place, weights, y); });
  }

  Sizes s_;
  std::vector<Call> calls_;
};

} // namespace kiln::test
