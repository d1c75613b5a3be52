// Tests that ranks with parts of a tensor drop what one rank with the whole tensor drops.
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/ranks.h>
#include <kiln/collectives/shards.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/elementwise.h>

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
