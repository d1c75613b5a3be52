// Tests that ranks with parts of a tensor drop what one rank with the whole tensor drops.
#include "exact_mlp.h"
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/attention.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/schedule/shards.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/elementwise.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings;

namespace {

template <int Rank> void fill(std::mt19937_64& random, Tensor<float, Rank>& t) {
  std::normal_distribution<float> normal;
  for (float& x : t)
    x = normal(random);
}
template <int Rank> bool same_bits(const Tensor<float, Rank>& a, const Tensor<float, Rank>& b) {
  return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
}

} // namespace

TEST_CASE("activations divided by rows or by columns lose the elements that one rank drops") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::int64_t rows = 37,
                     columns = 2 + static_cast<std::int64_t>(random() % 60); // perhaps one for a rank
  auto x = Tensor<float, 2>::empty({rows, columns}), whole = Tensor<float, 2>::empty({rows, columns});
  fill(random, x);
  const double probability = 0.3;
  {
    Stream stream;
    ops::dropout(stream, x, whole, {.probability = probability, .seed = seed});
    stream.synchronize();
  }
  for (int ranks : {1, 2, 3, 4, 8}) {
    auto by_rows = Tensor<float, 2>::zeros({rows, columns}),
         by_columns = Tensor<float, 2>::zeros({rows, columns});
    run_ranks({.ranks = ranks, .clock = ClockKind::virtual_time}, [&](Communicator& comm) {
      Stream stream;
      const Rows own = Shards::even(rows, ranks).rows(comm.rank()),
                 features = Shards::even(columns, ranks).rows(comm.rank());
      // Sequence parallelism: own rows.
      ops::dropout(stream, x.view().slice(0, own.begin, own.end), by_rows.view().slice(0, own.begin, own.end),
                   {.probability = probability, .seed = seed, .first = own.begin * columns});
      // Between a column- and a row-parallel layer: own columns, which are contiguous on their rank.
      auto mine = Tensor<float, 2>::empty({rows, features.count()});
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < features.count(); ++j)
          mine.view()(i, j) = x.view()(i, features.begin + j);
      ops::dropout(
          stream, mine, mine,
          {.probability = probability, .seed = seed, .first = features.begin, .whole_columns = columns});
      stream.synchronize();
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < features.count(); ++j)
          by_columns.view()(i, features.begin + j) = mine.view()(i, j);
    });
    INFO(ranks << " ranks, " << columns << " columns");
    CHECK(same_bits(by_rows, whole));
    CHECK(same_bits(by_columns, whole));
  }
}

TEST_CASE("attention whose heads are divided among ranks drops the weights that one rank drops") {
  constexpr std::int64_t heads = 8, key_heads = 2, tokens = 21, size = 16;
  std::mt19937_64 random(7);
  auto q = Tensor<float, 4>::empty({2, heads, tokens, size}),
       k = Tensor<float, 4>::empty({2, key_heads, tokens, size}),
       v = Tensor<float, 4>::empty({2, key_heads, tokens, size}),
       one = Tensor<float, 4>::empty({2, heads, tokens, size});
  fill(random, q), fill(random, k), fill(random, v);
  for (int ranks : {1, 2, 4, 8}) {
    auto o = Tensor<float, 4>::zeros({2, heads, tokens, size});
    run_ranks({.ranks = ranks, .clock = ClockKind::virtual_time}, [&](Communicator& comm) {
      Stream stream;
      const Rows own = Shards::even(heads, ranks).rows(comm.rank());
      const std::int64_t first = own.begin * key_heads / heads, last = (own.end - 1) * key_heads / heads;
      ops::AttentionOptions options{.causal = true, .dropout = 0.25, .seed = 99};
      options.first_head = own.begin, options.whole_heads = heads;
      options.batch_invariant = true;
      ops::attention(stream, q.view().slice(1, own.begin, own.end), k.view().slice(1, first, last + 1),
                     v.view().slice(1, first, last + 1), o.view().slice(1, own.begin, own.end), options);
      stream.synchronize();
    });
    INFO(ranks << " ranks");
    if (ranks == 1)
      one = std::move(o);
    else
      CHECK(same_bits(o, one));
  }
}

TEST_CASE("a layer of attention with dropout has the results and gradients of one rank") {
  constexpr std::int64_t heads = 8, key_heads = 2, size = 16, width = 24, rows = 22,
                         columns = (heads + 2 * key_heads) * size;
  std::mt19937_64 random(8);
  const test::Exact qkv = test::random_exact(random, width, columns),
                    out = test::random_exact(random, heads * size, width),
                    x = test::random_exact(random, rows, width), dy = test::random_exact(random, rows, width);
  const auto of_qkv = tensor_of(qkv), of_out = tensor_of(out), of_x = tensor_of(x), of_dy = tensor_of(dy);
  test::Exact y(rows, width), dx(rows, width), dout(heads * size, width); // of one rank
  for (int ranks : {1, 2, 4, 8}) {
    Findings found;
    run_ranks({.ranks = ranks, .clock = ClockKind::virtual_time}, [&](Communicator& comm) {
      Stream stream;
      TensorParallel tp(comm);
      ParallelAttention layer(
          tp, {.width = width, .heads = heads, .kv_heads = key_heads, .head_size = size, .dropout = 0.4});
      layer.load_full(stream, of_qkv, of_out);
      const Rows own = Shards::even(rows, ranks).rows(comm.rank()), features = layer.out().features();
      const auto my_x = of_x.view().slice(0, own.begin, own.end),
                 my_dy = of_dy.view().slice(0, own.begin, own.end);
      auto my_y = test::poisoned(own.count(), width), my_dx = test::poisoned(own.count(), width),
           my_dout = test::poisoned(features.count(), width);
      layer.forward(stream, {.sequences = 2, .length = rows / 2}, my_x, my_y, {.seed = 12345});
      layer.backward(stream, my_x, my_dy, my_dx, {.out = my_dout});
      stream.synchronize();
      if (ranks == 1) {
        std::copy(my_y.begin(), my_y.end(), y.x.begin());
        std::copy(my_dx.begin(), my_dx.end(), dx.x.begin());
        std::copy(my_dout.begin(), my_dout.end(), dout.x.begin());
        layer.forward(stream, {.sequences = 2, .length = rows / 2}, my_x, my_y, {.seed = 12346});
        stream.synchronize();
        found.require(error(my_y, y) > 0.01, "another seed drops other weights");
      }
      found.require(ranks == 1 || error(my_y, y, own.begin) < test::most_error, "y");
      found.require(error(my_dx, dx, own.begin) < test::most_error, "dx");
      found.require(error(my_dout, dout, features.begin) < test::most_error, "dout");
    });
    INFO(ranks << " ranks");
    CHECK(found.list() == test::nothing_wrong);
  }
}
