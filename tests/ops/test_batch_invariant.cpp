// Checks that with batch_invariant the bits of a row depend neither on the rows around it, their number and
// their place, nor on the number of threads.
#include "batch_bits.h"

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(ROWS);
KILN_DIM(COLUMNS);
KILN_DIM(DEPTH);
const auto fixed_product =
    kernel("fixed_product", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
      auto [m, n] = program_tile(c, ROWS, COLUMNS);
      c.tile(m, n).store(for_range(DEPTH, a.cols(), zeros<float>(ROWS, COLUMNS), [&](auto k, auto sum) {
        return dot(a.tile(m, k).load(), b.tile(k, n).load(), sum, Precision::ieee, SumOrder::fixed);
      }));
    });

} // namespace

TEST_CASE("on CPUs, products in a fixed order have the same bits with tiles of any size") {
  if (!test_device().is_cpu()) return; // there the order may depend on the config
  Random random;
  KILN_SEED(random);
  const std::int64_t m = random.integer(1, 60), n = random.integer(1, 60), k = random.integer(1, 1500);
  INFO(m << " x " << n << " x " << k);
  const auto a = random_tensor<float>(random, m, k), b = random_tensor<float>(random, k, n);
  Bits expected;
  for (int i = 0; i < 4; ++i) {
    const Config config{ROWS = std::int64_t{1} << random.integer(i == 0 ? 4 : 0, 5),
                        COLUMNS = std::int64_t{1} << random.integer(3, 6),
                        DEPTH = std::int64_t{1} << random.integer(3, 6)};
    INFO(config.to_string());
    auto c = Tensor<float, 2>::zeros({m, n});
    Run{}(fixed_product, config, a.view(), b.view(), c.view());
    if (i == 0) expected = bits_of(c.view());
    CHECK((bits_of(c.view()) == expected));
  }
}

TEMPLATE_TEST_CASE("a row of a product does not depend on its batch", "", float, bf16, f16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(4); ++i) {
    const std::int64_t m = std::max<std::int64_t>(batch_size(random), 20),
                       n = random.integer(1, test_device().is_cpu() ? 200 : 60),
                       k = random.integer(0, 2) ? random.integer(1, 300)
                                                : random.integer(900, test_device().is_cpu() ? 2200 : 1000);
    const bool transposed = random.integer(0, 1);
    INFO(m << " x " << n << " x " << k << (transposed ? ", b transposed" : ""));
    const auto a = random_tensor<T>(random, m, k);
    const auto b = random_tensor<T>(random, transposed ? n : k, transposed ? k : n);
    const auto bias = random_tensor<float>(random, n);
    auto c = Tensor<T, 2>::zeros({m, n});
    const auto b_view = transposed ? b.view().transpose() : b.view();
    check_batches(
        random, m,
        [&](std::int64_t first, std::int64_t count) {
          on_test_device(
              [&](Stream& stream, auto... v) {
                ops::linear(stream, v..., {.activation = ops::Activation::silu, .batch_invariant = true});
              },
              a.view().slice(0, first, first + count), b_view, bias.view(),
              c.view().slice(0, first, first + count));
        },
        [&](std::int64_t row) { return c.view().select(0, row); });
  }
}

TEMPLATE_TEST_CASE("columns of a part of a matrix have the bits of the whole product", "", float, bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  const bool cpu = test_device().is_cpu();
  for (int i = 0; i < rounds_here(6); ++i) {
    // Few columns and a long K, for which K is divided unless the whole matrix has many columns.
    const std::int64_t m = random.integer(1, 20), n = random.integer(2, i % 2 ? 300 : 60),
                       k = i % 3 == 0 ? (cpu ? random.integer(16384, 17000) : random.integer(2048, 2100))
                                      : random.integer(1, 300),
                       begin = random.integer(0, n - 1), end = random.integer(begin + 1, n);
    INFO(m << " x " << n << " x " << k << ", columns " << begin << " to " << end);
    const auto a = random_tensor<T>(random, m, k), b = random_tensor<T>(random, k, n);
    auto whole = Tensor<T, 2>::zeros({m, n}), part = Tensor<T, 2>::zeros({m, end - begin});
    on_test_device([](Stream& s, auto... v) { ops::matmul(s, v..., {.batch_invariant = true}); }, a.view(),
                   b.view(), whole.view());
    on_test_device(
        [&](Stream& s, auto... v) { ops::matmul(s, v..., {.batch_invariant = true, .whole_columns = n}); },
        a.view(), b.view().slice(1, begin, end), part.view());
    for (std::int64_t row = 0; row < m; ++row)
      CHECK(std::memcmp(part.data() + row * (end - begin), whole.data() + row * n + begin,
                        static_cast<std::size_t>(end - begin) * sizeof(T)) == 0);
  }
}

TEST_CASE("a product does not depend on its batch, whether K is divided or not") {
  Random random;
  KILN_SEED(random);
  const bool cpu = test_device().is_cpu();
  for (const std::int64_t k :
       {random.integer(1, 300), cpu ? random.integer(16384, 17000) : random.integer(2048, 2100)}) {
    const std::int64_t batches = 3, m = random.integer(1, 20), n = random.integer(1, 40);
    INFO(m << " x " << n << " x " << k);
    const auto a = random_tensor<float>(random, batches, m, k),
               b = random_tensor<float>(random, batches, k, n);
    auto c = Tensor<float, 3>::zeros({batches, m, n});
    check_batches(
        random, batches,
        [&](std::int64_t first, std::int64_t count) {
          const auto part = [&](auto& x) { return x.view().slice(0, first, first + count); };
          on_test_device(
              [&](Stream& stream, auto... v) { ops::matmul(stream, v..., {.batch_invariant = true}); },
              part(a), part(b), part(c));
        },
        [&](std::int64_t batch) { return c.view().select(0, batch); });
  }
}

TEMPLATE_TEST_CASE("a row of a group's product does not depend on the groups", "", float, bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  constexpr std::int64_t groups = 3;
  for (int i = 0; i < rounds_here(3); ++i) {
    const std::int64_t m = std::max<std::int64_t>(batch_size(random), 20), n = random.integer(1, 100),
                       k = random.integer(1, test_device().is_cpu() ? 1200 : 200);
    INFO(m << " x " << n << " x " << k);
    const auto a = random_tensor<T>(random, m, k);
    const auto b = random_tensor<T>(random, groups, k, n);
    auto c = Tensor<T, 2>::zeros({m, n});
    // All rows are of group 1, however many are in a call.
    check_batches(
        random, m,
        [&](std::int64_t first, std::int64_t count) {
          auto offsets = Tensor<std::int32_t, 1>::zeros({groups + 1});
          offsets.data()[2] = offsets.data()[3] = static_cast<std::int32_t>(count);
          on_test_device([&](Stream& stream,
                             auto... v) { ops::grouped_matmul(stream, v..., {.batch_invariant = true}); },
                         a.view().slice(0, first, first + count), b.view(), offsets.view(),
                         c.view().slice(0, first, first + count));
        },
        [&](std::int64_t row) { return c.view().select(0, row); });
  }
}

TEMPLATE_TEST_CASE("a query of attention does not depend on the other queries", "", float, bf16, f16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(4); ++i) {
    const std::int64_t heads = random.integer(1, 3), queries = std::max<std::int64_t>(batch_size(random), 20),
                       keys = random.integer(1, test_device().is_cpu() ? 600 : 100),
                       width = 16 * random.integer(1, 4), values = random.integer(1, 80);
    INFO(heads << " heads, " << queries << " queries, " << keys << " keys, " << width << " and " << values);
    const auto q = random_tensor<T>(random, heads, queries, width);
    const auto k = random_tensor<T>(random, heads, keys, width),
               v = random_tensor<T>(random, heads, keys, values);
    auto o = Tensor<T, 3>::zeros({heads, queries, values});
    ops::AttentionOptions options{.soft_cap = random.integer(0, 1) ? 3.0 : 0.0, .batch_invariant = true};
    check_batches(
        random, queries,
        [&](std::int64_t first, std::int64_t count) {
          on_test_device([&](Stream& stream, auto... x) { ops::attention(stream, x..., options); },
                         q.view().slice(1, first, first + count), k.view(), v.view(),
                         o.view().slice(1, first, first + count));
        },
        [&](std::int64_t row) { return o.view().select(1, row); });
  }
}

TEMPLATE_TEST_CASE("a query of causal attention does not depend on those behind it", "", float, bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(3); ++i) {
    const std::int64_t tokens = std::max<std::int64_t>(batch_size(random), 20),
                       width = 16 * random.integer(1, 4);
    const auto q = random_tensor<T>(random, 2, tokens, width), k = random_tensor<T>(random, 2, tokens, width),
               v = random_tensor<T>(random, 2, tokens, width);
    auto o = Tensor<T, 3>::zeros({2, tokens, width});
    const ops::AttentionOptions options{.causal = true,
                                        .alignment = ops::CausalAlignment::last,
                                        .window_before = random.integer(0, 1) ? random.integer(0, 100) : -1,
                                        .batch_invariant = true};
    INFO(tokens << " tokens, width " << width << ", window " << options.window_before);
    check_batches(
        random, tokens,
        [&](std::int64_t first, std::int64_t count) { // `count` queries at the last keys
          on_test_device([&](Stream& stream, auto... x) { ops::attention(stream, x..., options); },
                         q.view().slice(1, first, first + count), k.view().slice(1, 0, first + count),
                         v.view().slice(1, 0, first + count), o.view().slice(1, first, first + count));
        },
        [&](std::int64_t row) { return o.view().select(1, row); });
  }
}

TEMPLATE_TEST_CASE("a query of decoding does not depend on the other queries and sequences", "", float,
                   bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(3); ++i) {
    const std::int64_t queries = random.integer(2, 20), group = random.integer(1, 5),
                       width = 16 * random.integer(1, 4),
                       capacity = random.integer(queries, test_device().is_cpu() ? 700 : 300), batches = 2;
    const auto q = random_tensor<T>(random, batches, 2 * group, queries, width);
    auto keys = random_tensor<T>(random, batches, 2, capacity, width),
         values = random_tensor<T>(random, batches, 2, capacity, width);
    auto o = Tensor<T, 4>::zeros({batches, 2 * group, queries, width});
    const std::int64_t window = random.integer(0, 1) ? random.integer(0, 300) : -1;
    INFO(queries << " queries, group " << group << ", width " << width << ", " << capacity << " keys, window "
                 << window);
    for (const bool alone : {false, true}) // sequence 1 alone, or both
      check_batches(
          random, queries,
          [&](std::int64_t first, std::int64_t count) { // the cache ends with the last of these queries
            const std::int64_t begin = alone ? 1 : 0, length = capacity - queries + first + count;
            auto lengths = Tensor<std::int32_t, 1>::zeros({batches - begin});
            lengths.fill(static_cast<std::int32_t>(length));
            const auto part = [&](auto& x) { return x.view().slice(0, begin, batches); };
            on_test_device(
                [&](Stream& stream, auto q, auto keys, auto values, auto lengths, auto o) {
                  ops::attention_decode(stream, q, {.keys = keys, .values = values}, lengths, o,
                                        {.window_before = window, .batch_invariant = true});
                },
                part(q).slice(2, first, first + count), part(keys), part(values), lengths.view(),
                o.view().slice(0, begin, batches).slice(2, first, first + count));
          },
          [&](std::int64_t row) { return o.view().select(0, 1).select(1, row); });
  }
}

TEMPLATE_TEST_CASE("a row of softmax and norms does not depend on its batch", "", float, bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(6); ++i) {
    const std::int64_t m = std::max<std::int64_t>(batch_size(random), 20),
                       n = random.integer(0, 1) ? random.integer(1, 130)
                                                : random.integer(1, test_device().is_cpu() ? 3000 : 1000);
    const auto x = random_tensor<T>(random, m, n), residual = random_tensor<T>(random, m, n);
    const auto gamma = random_tensor<T>(random, n);
    auto y = Tensor<T, 2>::zeros({m, n});
    const int op = static_cast<int>(random.integer(0, 2));
    INFO("op " << op << ", " << m << " rows of " << n);
    check_batches(
        random, m,
        [&](std::int64_t first, std::int64_t count) {
          on_test_device(
              [&](Stream& stream, auto a, auto r, auto g, auto to) {
                if (op == 0)
                  ops::softmax(stream, a, to, {.batch_invariant = true});
                else if (op == 1)
                  ops::layernorm(stream, a, g, {}, to, {.residual = r, .batch_invariant = true});
                else
                  ops::rmsnorm(stream, a, g, to, {.batch_invariant = true});
              },
              x.view().slice(0, first, first + count), residual.view().slice(0, first, first + count),
              gamma.view(), y.view().slice(0, first, first + count));
        },
        [&](std::int64_t row) { return y.view().select(0, row); });
  }
}

TEST_CASE("a row of softmax and norms does not depend on its batch where the outer axes do not merge") {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < rounds_here(8); ++i) {
    const std::int64_t most = random.integer(3, test_device().is_cpu() ? 60 : 20),
                       n = random.integer(1, test_device().is_cpu() ? 2500 : 300);
    const auto x = random_tensor<float>(random, 3, most + 1, n),
               dy = random_tensor<float>(random, 3, most + 1, n);
    const auto gamma = random_tensor<float>(random, n);
    auto y = Tensor<float, 3>::zeros({3, most + 1, n});
    const int op = static_cast<int>(random.integer(0, 3));
    const auto compute = [&](std::int64_t batches, std::int64_t rows) {
      const auto part = [&](auto& t) { return t.view().slice(0, 0, batches).slice(1, 0, rows); };
      on_test_device(
          [&](Stream& s, auto x, auto gamma, auto dy, auto y) {
            if (op == 0)
              ops::softmax(s, x, y, {.batch_invariant = true});
            else if (op == 1)
              ops::rmsnorm(s, x, gamma, y, {.batch_invariant = true});
            else if (op == 2)
              ops::softmax_backward(s, x, dy, y, {.batch_invariant = true});
            else
              ops::layernorm_backward(s, x, gamma, dy, y, {}, {}, {.batch_invariant = true});
          },
          part(x), gamma.view(), part(dy), part(y));
    };
    compute(3, most);
    const Bits expected = bits_of(y.view().slice(1, 0, most));
    const std::int64_t batches = random.integer(2, 3), rows = random.integer(2, most);
    INFO("op " << op << ", " << batches << " of 3 batches, " << rows << " of " << most << " rows of " << n);
    overwrite(y.view().slice(0, 0, batches).slice(1, 0, rows));
    compute(batches, rows);
    CHECK((bits_of(y.view().slice(1, 0, most)) == expected));
  }
}

// Prints a digest of batch-invariant results on the CPU, for the test below.
TEST_CASE("digest of batch-invariant results", "[.]") {
  std::mt19937 bits(7); // the same numbers in each process
  std::uint64_t digest = 0;
  const auto add = [&](const auto& tensor) {
    for (const unsigned char byte : bits_of(tensor.view()))
      digest = (digest ^ byte) * 0x100000001b3u;
  };
  const auto product = [&]<class T>(T, std::int64_t m, std::int64_t n, std::int64_t k) {
    auto a = Tensor<T, 2>::zeros({m, k}), b = Tensor<T, 2>::zeros({k, n}), c = Tensor<T, 2>::zeros({m, n});
    for (auto* x : {&a, &b})
      for (T& element : *x)
        element = T(static_cast<float>(bits() % 2001) / 1000 - 1);
    Stream stream;
    ops::matmul(stream, a, b, c, {.batch_invariant = true});
    auto weights = Tensor<float, 2>::zeros({m, n});
    ops::softmax(stream, c, weights, {.batch_invariant = true});
    stream.synchronize();
    add(c), add(weights);
    auto o = Tensor<T, 2>::zeros({m, k}), dq = Tensor<T, 2>::zeros({m, k}), dk = Tensor<T, 2>::zeros({n, k}),
         dv = Tensor<T, 2>::zeros({n, k});
    auto lse = Tensor<float, 1>::zeros({m});
    if (k > 200) return;
    const auto keys = b.view().transpose();
    ops::attention(stream, a, keys, keys, o, {.lse = lse, .batch_invariant = true});
    ops::attention_backward(stream, a, a, keys, keys, o, lse, dq, dk, dv, {.batch_invariant = true});
    stream.synchronize();
    add(o), add(dq), add(dk), add(dv);
  };
  product(float(), 1, 300, 700), product(float(), 130, 90, 64), product(float(), 200, 40, 17000);
  product(bf16(), 1, 300, 700), product(bf16(), 130, 90, 64), product(bf16(), 9, 40, 17000);
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
}

TEST_CASE("batch-invariant results do not depend on the number of threads") {
  if (!test_device().is_cpu()) return;
  const auto digest = [](int threads) {
    const std::string command = "KILN_NUM_THREADS=" + std::to_string(threads) + " /proc/" +
                                std::to_string(getpid()) + "/exe 'digest of batch-invariant results'";
    std::string output;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe);
    char line[256];
    while (std::fgets(line, sizeof line, pipe))
      if (std::string(line).starts_with("digest ")) output = line;
    CHECK(pclose(pipe) == 0);
    return output;
  };
  const std::string one = digest(1);
  CHECK(one.size() == 24);
  CHECK(digest(2) == one);
  CHECK(digest(5) == one);
}
