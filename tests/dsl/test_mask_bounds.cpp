// Compares the bounds of recorded masks with the masks themselves, block by block, in the interpreter.
#include "language_test.h"
#include "random_numbers.h"

#include <kiln/dsl/detail/mask_bounds.h>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BQ);
KILN_DIM(BK);

namespace {

constexpr std::int64_t queries = 96, keys = 128;

// Counts blocks for which the bounds say none, some and all, and those for which they say more than the mask.
struct Counts {
  int none = 0, some = 0, all = 0, inexact = 0;
};

// f(query, key, rows, columns) is the mask: query is a tile [BQ, 1], key [1, BK], rows and columns are views
// of integers along the queries and the keys. Checks that the bounds are right.
template <class F>
Counts check_bounds(const char* name, const F& f, const std::vector<std::int32_t>& rows,
                    const std::vector<std::int32_t>& columns, std::string* gave_up = nullptr) {
  INFO(name);
  const auto kernel = bound(
      [&](View<const std::int32_t, 1> rows, View<const std::int32_t, 1> columns, View<std::int32_t, 3> out) {
        auto [q] = program_tile(rows, BQ);
        Scalar<std::int64_t> block = q / dim_size(BQ);
        for_range(BK, columns.size(), [&, q = q](auto k) {
          Tile query = expand<1>(cast<std::int32_t>(q + arange(BQ)));
          Tile key = expand<0>(cast<std::int32_t>(k + arange(BK)));
          Tile<bool, BQ, BK> mask =
              f(query, key, expand<1>(rows.tile(q).load()), expand<0>(columns.tile(k).load()));
          const detail::MaskBounds bounds = detail::emit_mask_bounds(mask.record());
          if (gave_up) *gave_up = bounds.gave_up;
          Tile seen = cast<std::int32_t>(mask);
          Scalar<std::int64_t> at = k / dim_size(BK);
          out.at(block, at, 0).store(cast<std::int32_t>(Scalar<bool>(bounds.any)));
          out.at(block, at, 1).store(cast<std::int32_t>(Scalar<bool>(bounds.all)));
          out.at(block, at, 2).store(max(max(seen, BK), BQ));
          out.at(block, at, 3).store(min(min(seen, BK), BQ));
        });
      },
      {BQ = 16, BK = 32});
  constexpr std::int64_t query_blocks = queries / 16, key_blocks = keys / 32;
  std::vector<std::int32_t> out(query_blocks * key_blocks * 4, -1);
  auto r = rows, c = columns;
  Arguments()
      .view(r.data(), {queries})
      .view(c.data(), {keys})
      .view(out.data(), {query_blocks, key_blocks, 4})
      .run_on(*kernel, {query_blocks});
  Counts counts;
  for (std::size_t b = 0; b < out.size(); b += 4) {
    const bool any = out[b], all = out[b + 1], some_true = out[b + 2], all_true = out[b + 3];
    INFO("block " << b / 4 << ": any " << any << ", all " << all << "; the mask: " << some_true << ", "
                  << all_true);
    CHECK((any || !some_true));
    CHECK((!all || all_true));
    ++(all ? counts.all : any ? counts.some : counts.none);
    counts.inexact += any != some_true || all != all_true;
  }
  return counts;
}

std::vector<std::int32_t> zeros(std::int64_t n) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(n));
}

} // namespace

TEST_CASE("the bounds of affine masks are exact") {
  const auto none = zeros(queries), no = zeros(keys);
  const auto exact = [&](const char* name, const auto& f) {
    std::string gave_up;
    const Counts c = check_bounds(name, f, none, no, &gave_up);
    CHECK(c.inexact == 0);
    CHECK(gave_up == "");
    return c;
  };
  Counts c = exact("causal", [](auto q, auto k, auto, auto) { return k <= q; });
  CHECK(c.none > 0);
  CHECK(c.some > 0);
  CHECK(c.all > 0);
  exact("causal, other alignment", [](auto q, auto k, auto, auto) { return k - q <= 32; });
  c = exact("prefix", [](auto q, auto k, auto, auto) { return (k <= q) | (k < 40); });
  CHECK(c.none > 0);
  exact("scaled", [](auto q, auto k, auto, auto) { return 2 * q >= k * 3 + 1; });
  exact("negated", [](auto q, auto k, auto, auto) { return !(k > q); });
  exact("all", [](auto q, auto k, auto, auto) { return k >= q * 0; });
}

TEST_CASE("the bounds of windows and documents are right, and skip blocks") {
  const auto none = zeros(queries), no = zeros(keys);
  Counts c =
      check_bounds("window", [](auto q, auto k, auto, auto) { return (k <= q) & (k > q - 20); }, none, no);
  CHECK(c.none > 10);
  c = check_bounds("absolute distance", [](auto q, auto k, auto, auto) { return abs(q - k) < 10; }, none, no);
  CHECK(c.none > 10);
  std::vector<std::int32_t> documents = zeros(keys), of_queries(queries);
  for (std::size_t i = 0; i < documents.size(); ++i)
    documents[i] = static_cast<std::int32_t>(i >= 30) + static_cast<std::int32_t>(i >= 64) +
                   static_cast<std::int32_t>(i >= 100);
  std::copy_n(documents.begin(), queries, of_queries.begin());
  c = check_bounds(
      "documents", [](auto, auto, auto rows, auto columns) { return rows == columns; }, of_queries,
      documents);
  CHECK(c.none > 5);
  CHECK(c.all > 0);
  c = check_bounds("blocks of 32", [](auto q, auto k, auto, auto) { return q / 32 == k / 32; }, none, no);
  CHECK(c.inexact == 0);
  CHECK(c.none > 10);
}

TEST_CASE("bounds give up on what they have no rule for, and say where") {
  std::string gave_up;
  const Counts c = check_bounds(
      "hash", [](auto q, auto k, auto, auto) { return ((q * 7 ^ k * 5) & 3) != 0; }, zeros(queries),
      zeros(keys), &gave_up);
  CHECK(c.some == static_cast<int>(queries / 16 * (keys / 32)));
  CHECK_THAT(gave_up, Catch::Contains("without a rule") && Catch::Contains("test_mask_bounds.cpp"));
  check_bounds(
      "overflow", [](auto q, auto k, auto, auto) { return q * 100000000 > k * 90000000; }, zeros(queries),
      zeros(keys));
  check_bounds(
      "floats", [](auto q, auto k, auto, auto) { return cast<float>(q) * 0.5f < cast<float>(k); },
      zeros(queries), zeros(keys));
}

TEST_CASE("the bounds of random masks are right") {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::int32_t> rows(queries), columns(keys);
    const auto spread = static_cast<std::int32_t>(random.integer(1, 60));
    for (auto& x : rows)
      x = static_cast<std::int32_t>(random.integer(-spread, spread));
    for (auto& x : columns)
      x = static_cast<std::int32_t>(random.integer(-spread, spread));
    // A random tree of integers, and comparisons of such trees joined by logic.
    const auto seed = random();
    check_bounds(
        "random",
        [&](const auto& q, const auto& k, const auto& r, const auto& c) {
          std::mt19937_64 draw(seed);
          using T = Tile<std::int32_t, BQ, BK>;
          using B = Tile<bool, BQ, BK>;
          const auto pick = [&](int n) { return static_cast<int>(draw() % static_cast<unsigned>(n)); };
          const auto leaf = [&]() -> T {
            switch (pick(5)) {
            case 0: return broadcast(q, BQ, BK);
            case 1: return broadcast(k, BQ, BK);
            case 2: return broadcast(r, BQ, BK);
            case 3: return broadcast(c, BQ, BK);
            default: return full(static_cast<std::int32_t>(pick(100) - 50), BQ, BK);
            }
          };
          const auto value = [&](auto& self, int depth) -> T {
            if (depth == 0) return leaf();
            T a = self(self, depth - 1), b = self(self, depth - 1);
            const auto positive = static_cast<std::int32_t>(1 + pick(40));
            switch (pick(11)) {
            case 0: return a + b;
            case 1: return a - b;
            case 2: return a * b;
            case 3: return a / positive;
            case 4: return a % positive;
            case 5: return min(a, b);
            case 6: return max(a, b);
            case 7: return abs(a);
            case 8: return -a;
            case 9: return where(a < b, b, leaf());
            default: return a >> (positive % 8);
            }
          };
          const auto truth = [&](auto& self, int depth) -> B {
            T a = value(value, 2), b = value(value, 1);
            B x = pick(2) ? B(a < b) : pick(2) ? B(a >= b) : pick(2) ? B(a == b) : B(a != b);
            if (depth == 0) return x;
            B y = self(self, depth - 1);
            switch (pick(5)) {
            case 0: return x & y;
            case 1: return x | y;
            case 2: return x ^ y;
            case 3: return !x;
            default: return where(x, y, self(self, 0));
            }
          };
          return truth(truth, 2);
        },
        rows, columns);
  }
}
