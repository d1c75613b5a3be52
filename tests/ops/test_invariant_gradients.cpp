// Checks that with batch_invariant the bits of gradients that belong to a row or a sequence depend neither on
// the others of the batch, nor on which gradients are computed. test_batch_invariant.cpp varies the threads.
#include "batch_bits.h"

#include <array>
#include <string>

using namespace kiln;
using namespace kiln::test;

namespace {

// The tensors of attention and of its gradients: [heads, tokens, width], with one axis more for batches. The
// views of some of them are those of one call.
template <class T, int R> struct Attention {
  using Offsets = TensorView<std::int32_t, 1>;
  TensorView<T, R> q, k, v, o, dout, dq, dk, dv;
  TensorView<float, R - 1> lse;

  // The same call with parts of the tensors: of(x, has_queries) is the part of one.
  template <class Of> auto part(const Of& of) const {
    constexpr int rank = decltype(of(q, true))::rank();
    return Attention<T, rank>{of(q, true),  of(k, false),  of(v, false),  of(o, true),  of(dout, true),
                              of(dq, true), of(dk, false), of(dv, false), of(lse, true)};
  }
  // With offsets, the batch is ragged.
  void forward(ops::AttentionOptions options, const Offsets& offsets = {}) const {
    on_test_device(
        [&](Stream& s, auto offsets, auto lse, auto... x) {
          options.lse = lse;
          if (offsets.extent(0) > 0) options.query_offsets = options.key_offsets = offsets;
          ops::attention(s, x..., options);
        },
        offsets, lse, q, k, v, o);
  }
  // `wanted` has a letter for each gradient.
  void backward(ops::AttentionOptions options, const std::string& wanted = "qkv",
                const Offsets& offsets = {}) const {
    const auto given = [&](char name, const auto& x) {
      return wanted.find(name) == wanted.npos ? ops::Output() : ops::Output(x);
    };
    on_test_device(
        [&](Stream& s, auto offsets, auto dq, auto dk, auto dv, auto... x) {
          if (offsets.extent(0) > 0) options.query_offsets = options.key_offsets = offsets;
          ops::attention_backward(s, x..., given('q', dq), given('k', dk), given('v', dv), options);
        },
        offsets, dq, dk, dv, dout, q, k, v, o, lse);
  }
  std::array<Bits, 3> bits() const { return {bits_of(dq), bits_of(dk), bits_of(dv)}; }
};

// Owns the tensors.
template <class T> struct AttentionTensors {
  Tensor<T, 4> q, k, v, o, dout, dq, dk, dv;
  Tensor<float, 3> lse;

  AttentionTensors(Random& r, std::int64_t batches, std::int64_t key_heads, std::int64_t group,
                   std::int64_t queries, std::int64_t keys)
      : AttentionTensors(r, batches, key_heads * group, key_heads, queries, keys, 16 * r.integer(1, 4),
                         r.integer(1, 80)) {}
  Attention<T, 4> views() {
    return {q.view(), k.view(), v.view(), o.view(), dout.view(), dq.view(), dk.view(), dv.view(), lse.view()};
  }

private:
  AttentionTensors(Random& r, std::int64_t b, std::int64_t h, std::int64_t kh, std::int64_t queries,
                   std::int64_t keys, std::int64_t width, std::int64_t values)
      : q(random_tensor<T>(r, b, h, queries, width)), k(random_tensor<T>(r, b, kh, keys, width)),
        v(random_tensor<T>(r, b, kh, keys, values)), o(random_tensor<T>(r, b, h, queries, values)),
        dout(random_tensor<T>(r, b, h, queries, values)), dq(random_tensor<T>(r, b, h, queries, width)),
        dk(random_tensor<T>(r, b, kh, keys, width)), dv(random_tensor<T>(r, b, kh, keys, values)),
        lse(random_tensor<float>(r, b, h, queries)) {}
};

std::int64_t some_tokens(Random& r) { return r.integer(1, test_device().is_cpu() ? 300 : 24); }

} // namespace

TEMPLATE_TEST_CASE("gradients of attention do not depend on other batches, heads and tokens", "", float,
                   bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(3); ++i) {
    const std::int64_t batches = random.integer(1, 3), key_heads = random.integer(1, 3),
                       group = random.integer(1, 2), queries = some_tokens(random),
                       keys = some_tokens(random);
    ops::AttentionOptions options{.soft_cap = random.integer(0, 1) ? 3.0 : 0.0, .batch_invariant = true};
    options.causal = random.integer(0, 1);
    INFO(batches << " x " << key_heads << " x " << group << " heads, " << queries << " queries, " << keys
                 << " keys" << (options.causal ? ", causal" : ""));
    AttentionTensors<T> tensors(random, batches, key_heads, group, queries, keys);
    const auto all = tensors.views();
    all.forward(options);
    all.backward(options);

    const std::int64_t b = random.integer(0, batches - 1), h = random.integer(0, key_heads - 1);
    const auto head = all.part([&](const auto& x, bool of_queries) {
      const std::int64_t heads = of_queries ? group : 1;
      return x.select(0, b).slice(0, h * heads, (h + 1) * heads);
    });
    const auto expected = head.bits();
    const auto repeats = [&](const auto& call, const std::string& wanted) {
      if (wanted.find('q') != wanted.npos) overwrite(call.dq);
      if (wanted.find('k') != wanted.npos) overwrite(call.dk);
      if (wanted.find('v') != wanted.npos) overwrite(call.dv);
      call.backward(options, wanted);
      return head.bits() == expected;
    };
    CHECK(repeats(head, "qkv"));
    CHECK(repeats(head, "q"));
    CHECK(repeats(head, "kv"));
    if (options.causal) continue; // it counts tokens
    const auto some = [&](bool of_queries) {
      const std::int64_t tokens = of_queries ? queries : keys, count = random.integer(1, tokens),
                         first = random.integer(0, tokens - count);
      return head.part([=](const auto& x, bool has_queries) {
        return has_queries == of_queries ? x.slice(1, first, first + count) : x.slice(1, 0, x.extent(1));
      });
    };
    CHECK(repeats(some(true), "q"));
    CHECK(repeats(some(false), "kv"));
  }
}

TEMPLATE_TEST_CASE("gradients of a sequence of a ragged batch are those of the sequence alone", "", float,
                   bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(1); ++i) {
    const std::int64_t sequences = test_device().is_cpu() ? 3 : 2;
    auto begins = Tensor<std::int32_t, 1>::zeros({sequences + 1});
    for (std::int64_t s = 0; s < sequences; ++s)
      begins.data()[s + 1] = begins.data()[s] + static_cast<std::int32_t>(some_tokens(random) / 2 + 1);
    const std::int64_t tokens = begins.data()[sequences];
    AttentionTensors<T> tensors(random, 1, random.integer(1, 3), random.integer(1, 2), tokens, tokens);
    const auto all = tensors.views().part([](const auto& x, bool) { return x.select(0, 0); });
    const ops::AttentionOptions options{.causal = true, .batch_invariant = true};
    all.forward(options, begins.view());
    all.backward(options, "qkv", begins.view());
    const auto expected = all.bits();
    for (std::int64_t s = 0; s < sequences; ++s) {
      const auto alone =
          all.part([&](const auto& x, bool) { return x.slice(1, begins.data()[s], begins.data()[s + 1]); });
      INFO("sequence " << s << " of " << tokens << " tokens in all, from " << begins.data()[s] << " to "
                       << begins.data()[s + 1]);
      overwrite(alone.dq), overwrite(alone.dk), overwrite(alone.dv);
      alone.backward(options);
      CHECK((all.bits() == expected));
    }
  }
}

TEMPLATE_TEST_CASE("a row of a product's gradient does not depend on its batch", "", float, bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(3); ++i) {
    const std::int64_t m = std::max<std::int64_t>(batch_size(random), 20),
                       n = random.integer(1, test_device().is_cpu() ? 1200 : 100), k = random.integer(1, 100);
    INFO(m << " x " << n << " x " << k);
    const auto x = random_tensor<T>(random, m, k), weight = random_tensor<T>(random, k, n),
               dy = random_tensor<T>(random, m, n);
    auto dx = Tensor<T, 2>::zeros({m, k});
    check_batches(
        random, m,
        [&](std::int64_t first, std::int64_t count) {
          const auto part = [&](auto& t) { return t.view().slice(0, first, first + count); };
          on_test_device(
              [&](Stream& stream, auto x, auto weight, auto dy, auto dx) {
                ops::linear_backward(stream, x, weight, dy, dx, {}, {.batch_invariant = true});
              },
              part(x), weight.view(), part(dy), part(dx));
        },
        [&](std::int64_t row) { return dx.view().select(0, row); });
  }
}

TEMPLATE_TEST_CASE("a row of the gradient of softmax and norms does not depend on its batch", "", float,
                   bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(6); ++i) {
    const std::int64_t m = std::max<std::int64_t>(batch_size(random), 20),
                       n = random.integer(0, 1) ? random.integer(1, 130)
                                                : random.integer(1, test_device().is_cpu() ? 3000 : 1000);
    const auto x = random_tensor<T>(random, m, n), dy = random_tensor<T>(random, m, n);
    const auto gamma = random_tensor<T>(random, n);
    auto dx = Tensor<T, 2>::zeros({m, n}), sums = Tensor<T, 2>::zeros({2, n});
    const int op = static_cast<int>(random.integer(0, 3));
    INFO("op " << op << ", " << m << " rows of " << n);
    check_batches(
        random, m,
        [&](std::int64_t first, std::int64_t count) {
          const auto part = [&](auto& t) { return t.view().slice(0, first, first + count); };
          on_test_device(
              [&](Stream& stream, auto x, auto gamma, auto dy, auto dx, auto sums) {
                if (op == 0)
                  ops::softmax_backward(stream, x, dy, dx, {.batch_invariant = true});
                else if (op == 1)
                  ops::log_softmax_backward(stream, x, dy, dx, {.batch_invariant = true});
                else if (op == 2)
                  ops::layernorm_backward(stream, x, gamma, dy, dx, sums.select(0, 0), sums.select(0, 1),
                                          {.batch_invariant = true});
                else
                  ops::rmsnorm_backward(stream, x, gamma, dy, dx, {}, {.batch_invariant = true});
              },
              part(x), gamma.view(), part(dy), part(dx), sums.view());
        },
        [&](std::int64_t row) { return dx.view().select(0, row); });
  }
}
