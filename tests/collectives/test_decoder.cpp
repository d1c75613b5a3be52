// Tests what transformers need for decoding on several ranks: a cache of keys and values, calls without
// sequence parallelism, and norms of sums.
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/attention.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/norm.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;

namespace {

Tensor<float, 2> random_matrix(std::mt19937_64& random, std::int64_t m, std::int64_t n) {
  return test::random_matrix<float>(random, m, n, 0.5f);
}

double difference(const TensorView<const float, 2>& a, const TensorView<const float, 2>& b) {
  double worst = 0, largest = 1e-30;
  for (std::int64_t i = 0; i < a.extent(0); ++i)
    for (std::int64_t j = 0; j < a.extent(1); ++j) {
      const double x = a(i, j), y = b(i, j);
      if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
      worst = std::max(worst, std::abs(x - y)), largest = std::max(largest, std::abs(y));
    }
  return worst / largest;
}
constexpr double most_error = 2e-5;

// Sequences that are decoded token by token, after prefills of different lengths.
struct Decoding {
  std::int64_t sequences = 2, length = 9, width = 24, heads = 8, kv_heads = 2, head_size = 6;
  std::vector<std::int64_t> prefill = {5, 2};
  AttentionShape shape() const {
    return {.width = width,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_size = head_size,
            .rotary = ops::RotaryOptions{.theta = 100}};
  }
};

// The rows of all tokens on one rank without a cache, the sequences one after the other. The tests of layers
// compare this with double precision.
Tensor<float, 2> without_cache(const Decoding& d, const Tensor<float, 2>& x, const Tensor<float, 2>& qkv,
                               const Tensor<float, 2>& out) {
  auto y = test::full(x.extent(0), d.width, 1e30f);
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    Stream stream;
    TensorParallel tp(comm);
    ParallelAttention attention(tp, d.shape());
    attention.load_full(stream, qkv, out);
    attention.forward(stream, {d.sequences, d.length}, x, y, {.residual = x});
    stream.synchronize();
  });
  return y;
}

} // namespace

TEST_CASE("attention with a cache of keys and values gives on any number of ranks what it gives without") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Decoding d;
  const auto qkv = random_matrix(random, d.width, (d.heads + 2 * d.kv_heads) * d.head_size),
             out = random_matrix(random, d.heads * d.head_size, d.width),
             x = random_matrix(random, d.sequences * d.length, d.width);
  const auto expected = without_cache(d, x, qkv, out);
  for (int ranks : {1, 2, 4, 8}) // 4 and 8 have replicas of the heads of keys
    for (const bool paged : {false, true}) {
      INFO(ranks << " ranks" << (paged ? ", pages" : ""));
      Findings found;
      run_ranks(
          {.ranks = ranks,
           .clock = ClockKind::virtual_time,
           .link = {.bytes_per_second = 1e9, .latency = 100}},
          [&](Communicator& comm) {
            Stream stream;
            TensorParallel tp(comm);
            ParallelAttention attention(tp, d.shape());
            attention.load_full(stream, qkv, out);
            constexpr std::int64_t page = 4, pages = 3; // of each sequence
            const std::int64_t count = paged ? d.sequences * pages : d.sequences,
                               capacity = paged ? page : page * pages;
            auto keys = Tensor<float, 4>::empty({count, attention.own_kv_heads(), capacity, d.head_size}),
                 values = Tensor<float, 4>::empty({count, attention.own_kv_heads(), capacity, d.head_size});
            keys.fill(NAN), values.fill(NAN);
            auto blocks = Tensor<std::int32_t, 2>::empty({d.sequences, pages});
            for (std::int64_t i = 0; i < blocks.size(); ++i)
              blocks.data()[i] = static_cast<std::int32_t>(blocks.size() - 1 - i);
            auto lengths = Tensor<std::int32_t, 1>::zeros({d.sequences});
            // Sequence s alone, from `first` on.
            const auto run = [&](std::int64_t s, std::int64_t first, std::int64_t tokens, bool empty) {
              ops::KeyValueCache cache{.keys = paged ? keys.view() : keys.view().slice(0, s, s + 1),
                                       .values = paged ? values.view() : values.view().slice(0, s, s + 1)};
              if (paged) cache.blocks = ops::Input(blocks.view().slice(0, s, s + 1));
              const std::int64_t begin = s * d.length + first;
              const auto rows = x.view().slice(0, begin, begin + tokens);
              // A prefill is divided among the ranks, a single token is not.
              const bool divided = tokens > 1;
              const Rows own = divided ? Shards::even(tokens, ranks).rows(comm.rank()) : Rows{0, tokens};
              const auto mine = rows.slice(0, own.begin, own.end);
              auto y = test::full(own.count(), d.width, 1e30f);
              attention.forward_cached(
                  stream, {1, tokens}, mine, y,
                  {.cache = cache, .lengths = lengths.view().slice(0, s, s + 1), .empty = empty},
                  {.residual = mine, .sequence_parallel = divided});
              stream.synchronize();
              lengths.data()[s] += static_cast<std::int32_t>(tokens);
              const double wrong =
                  difference(y, expected.view().slice(0, begin + own.begin, begin + own.end));
              found.require(wrong < most_error, std::to_string(tokens) + " tokens from " +
                                                    std::to_string(first) + " are wrong by " +
                                                    std::to_string(wrong));
            };
            for (std::int64_t s = 0; s < d.sequences; ++s) {
              const std::int64_t prefill = d.prefill[static_cast<std::size_t>(s)];
              run(s, 0, prefill, s == 0); // both ways to compute a prefill
              run(s, prefill, 1, false);
              run(s, prefill + 1, d.length - prefill - 2, false); // several at once
            }
            // The last tokens of all sequences at once.
            auto last = test::full(d.sequences, d.width, 0), y = test::full(d.sequences, d.width, 1e30f);
            for (std::int64_t s = 0; s < d.sequences; ++s)
              std::copy_n(&x.view()(s * d.length + d.length - 1, 0), d.width, &last.view()(s, 0));
            ops::KeyValueCache cache{.keys = keys, .values = values};
            if (paged) cache.blocks = ops::Input(blocks);
            attention.forward_cached(stream, {d.sequences, 1}, last, y, {cache, lengths},
                                     {.residual = last, .sequence_parallel = false});
            stream.synchronize();
            for (std::int64_t s = 0; s < d.sequences; ++s) {
              const std::int64_t at = s * d.length + d.length - 1;
              const double wrong =
                  difference(y.view().slice(0, s, s + 1), expected.view().slice(0, at, at + 1));
              found.require(wrong < most_error, "a batch is wrong by " + std::to_string(wrong));
            }
          });
      CHECK(found.list() == test::nothing_wrong);
    }
}

TEST_CASE("layers normalise their sums, with and without sequence parallelism, in a call of their own") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::int64_t rows = 13, width = 33, hidden = 40;
  const auto up = random_matrix(random, width, 2 * hidden), down = random_matrix(random, hidden, width),
             x = random_matrix(random, rows, width), gamma_row = random_matrix(random, 1, width);
  const TensorView<const float, 1> gamma(gamma_row.data(), {width});
  auto one = test::full(rows, width, 0);
  for (int ranks : {1, 2, 3, 8})
    for (const bool divided : {true, false}) {
      INFO(ranks << " ranks" << (divided ? ", divided" : ""));
      Findings found;
      run_ranks(
          {.ranks = ranks, .clock = ClockKind::virtual_time, .link = {.bytes_per_second = 1e9}},
          [&](Communicator& comm) {
            Stream stream;
            TensorParallel tp(comm);
            ParallelMlp mlp(tp, {.width = width, .hidden = hidden, .sequence_parallel = !divided});
            mlp.load_full(stream, up, down);
            const Rows own = divided ? Shards::even(rows, ranks).rows(comm.rank()) : Rows{0, rows};
            const auto mine = x.view().slice(0, own.begin, own.end);
            auto y = test::full(own.count(), width, 1e30f), normed = test::full(own.count(), width, 1e30f),
                 separate = test::full(own.count(), width, -1e30f), dx = test::full(own.count(), width, 0);
            mlp.forward(stream, rows, mine, y,
                        {.residual = mine, .norm = {gamma, normed, 1e-4}, .sequence_parallel = divided});
            ops::rmsnorm(stream, y, gamma, separate, {.eps = 1e-4, .batch_invariant = true});
            stream.synchronize();
            found.require(std::equal(normed.begin(), normed.end(), separate.begin()), "the norm");
            if (ranks == 1) std::copy(y.begin(), y.end(), one.begin());
            found.require(difference(y, one.view().slice(0, own.begin, own.end)) < most_error, "the sum");
            bool refused = false;
            try {
              mlp.backward(stream, mine, mine, dx, {});
            } catch (const UserError&) {
              refused = true;
            }
            found.require(refused, "a backward for a forward that was divided otherwise");
          });
      CHECK(found.list() == test::nothing_wrong);
    }
}

// Narrow rows, rows that fit a tile, and longer ones have kernels of their own.
TEMPLATE_TEST_CASE("a norm of sums has the bits of ops::rmsnorm by every schedule", "", float, bf16, double) {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto filled = [&](std::int64_t m, std::int64_t n) {
    return test::random_matrix<TestType>(random, m, n);
  };
  for (const std::int64_t width :
       {std::int64_t{5}, std::int64_t{200}, std::int64_t{1500}, std::int64_t{40000}}) {
    const std::int64_t rows = width > 2000 ? 3 : 11, k = 6;
    const auto a = filled(rows, k), b = filled(k, width), residual = filled(rows, width),
               g = filled(1, width);
    const TensorView<const TestType, 1> gamma(g.data(), {width});
    const int ranks = 2 + static_cast<int>(random() % 2);
    Findings found;
    run_ranks({.ranks = ranks, .clock = ClockKind::virtual_time}, [&](Communicator& comm) {
      Stream stream;
      for (const char* schedule : {"serial", "two_shot", "one_shot"})
        for (const bool has_gamma : {true, false}) {
          TensorParallel tp(comm, {.force = Candidate{schedule, {1}}});
          auto c = Tensor<TestType, 2>::empty({rows, width}),
               normed = Tensor<TestType, 2>::empty({rows, width}),
               alone = Tensor<TestType, 2>::empty({rows, width});
          normed.fill(TestType(-9.0f));
          ParallelMatmulOptions options{.residual = residual};
          options.norm.y = normed;
          if (has_gamma) options.norm.gamma = gamma;
          tp.matmul_all_reduce(stream, a, b, c, options);
          ops::rmsnorm(stream, c, options.norm.gamma, alone, {.batch_invariant = true});
          stream.synchronize();
          found.require(std::memcmp(normed.data(), alone.data(),
                                    static_cast<std::size_t>(c.size()) * sizeof(TestType)) == 0,
                        std::string(schedule) + ", width " + std::to_string(width));
        }
    });
    CHECK(found.list() == test::nothing_wrong);
  }
}

TEST_CASE("wrong arguments of sums with norms are errors on any number of ranks, which continue") {
  for (int ranks : {1, 2})
    for (const bool divided : {true, false}) {
      INFO(ranks << " ranks" << (divided ? ", divided" : ""));
      Findings found;
      run_ranks({.ranks = ranks}, [&](Communicator& comm) {
        Stream stream;
        TensorParallel tp(comm);
        constexpr std::int64_t rows = 4, in = 8, out = 6;
        RowParallelLinear layer(tp, {.in = in, .out = out, .sequence_parallel = divided});
        const auto weight = test::full(in, out, 1);
        layer.load_full(stream, weight, {});
        const std::int64_t own = divided ? rows / ranks : rows;
        const auto x = test::full(rows, layer.features().count(), 1), residual = test::full(own, out, 2);
        const auto gamma = test::full(out, 1);
        auto y = test::full(own, out, 777), normed = test::full(own, out, 777);
        const auto integers = Tensor<std::int32_t, 1>::zeros({out});
        const auto residuals = Tensor<std::int32_t, 2>::zeros({own, out});
        const TensorView<float, 1> row_of_y(y.data(), {out});
        const auto refused = [&](const char* what, const ForwardOptions& options) {
          try {
            layer.forward(stream, x, y, options);
            stream.synchronize();
            found.require(false, std::string(what) + " is no error");
          } catch (const UserError&) {
          }
        };
        refused("a norm in place of the sum", {.norm = {gamma, y}});
        refused("a gamma in the sum", {.norm = {row_of_y, normed}});
        refused("a gamma of integers", {.norm = {integers, normed}});
        refused("a residual of integers", {.residual = residuals, .norm = {gamma, normed}});
        // The ranks continue.
        layer.forward(stream, x, y, {.residual = residual, .norm = {gamma, normed, 0}});
        stream.synchronize();
        found.require(y.view()(own - 1, out - 1) == in + 2 && normed.view()(0, 0) == 1, "the result");
      });
      CHECK(found.list() == test::nothing_wrong);
    }
}
