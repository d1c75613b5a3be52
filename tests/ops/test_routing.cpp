// Tests the routing of tokens to experts: the choice, the sorting by experts, and the way there and back.
#include "strided.h"

#include <kiln/kiln.h>

#include <numeric>

using namespace kiln;
using namespace kiln::test;

namespace {

bool quick() { return test_device().is_cpu(); } // emulated GPUs are slow
int rounds(int most) { return quick() ? most : 2; }

auto index(std::int64_t i) { return static_cast<std::size_t>(i); }

} // namespace

TEMPLATE_TEST_CASE("each token goes to the experts with the largest scores", "", float, bf16, double) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(3); ++round) {
    const std::int64_t tokens = random.integer(1, quick() ? 60 : 6),
                       count = random.integer(1, quick() ? 256 : 20),
                       k = random.integer(1, std::min<std::int64_t>(count, 9));
    const bool sigmoid = random.integer(0, 1), renormalise = random.integer(0, 1),
               biased = random.integer(0, 1);
    Strided<T, 2> logits(random, {tokens, count}, uniform(random, -3, 3));
    Strided<float, 1> bias(random, {count}, uniform(random, -1, 1));
    Strided<std::int32_t, 2> experts(random, {tokens, k});
    Strided<float, 2> weights(random, {tokens, k});
    INFO(count << " experts, logits " << logits.layout() << " sigmoid " << sigmoid << " biased " << biased);
    on_test_device(
        [&](Stream& s, auto logits, auto bias, auto experts, auto weights) {
          ops::route_topk(s, logits, experts, weights,
                          {.scores = sigmoid ? ops::RouterScores::sigmoid : ops::RouterScores::softmax,
                           .renormalise = renormalise,
                           .scale = 1.5,
                           .bias = biased ? ops::Input(bias) : ops::Input()});
        },
        logits.view, bias.view, experts.view, weights.view);
    std::vector<double> expected;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<double> score(index(count)), choice(index(count));
      double total = 0;
      for (std::int64_t e = 0; e < count; ++e)
        total += std::exp(logits(t, e));
      for (std::int64_t e = 0; e < count; ++e) {
        score[index(e)] = sigmoid ? 1 / (1 + std::exp(-logits(t, e))) : std::exp(logits(t, e)) / total;
        choice[index(e)] = biased ? score[index(e)] + bias(e) : logits(t, e);
      }
      std::vector<std::int64_t> order(index(count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](auto x, auto y) { return choice[index(x)] > choice[index(y)]; });
      double sum = 0;
      for (std::int64_t s = 0; s < k; ++s) {
        // Sums of score and bias may be rounded to the other order.
        const auto e = static_cast<std::int64_t>(experts(t, s));
        REQUIRE((e >= 0 && e < count));
        REQUIRE(choice[index(e)] == Approx(choice[index(order[index(s)])]).margin(biased ? 1e-6 : 0));
        if (!biased) REQUIRE(e == order[index(s)]);
        for (std::int64_t before = 0; before < s; ++before)
          REQUIRE(e != static_cast<std::int64_t>(experts(t, before)));
        sum += score[index(e)];
      }
      for (std::int64_t s = 0; s < k; ++s)
        expected.push_back(1.5 * score[index(static_cast<std::int64_t>(experts(t, s)))] /
                           (renormalise ? sum : 1));
    }
    weights.check(1e-5, [&](auto t, auto s) { return expected[index(t * k + s)]; });
    experts.check_gaps();
  }
}

TEMPLATE_TEST_CASE("pairs are sorted stably by their experts", "", std::int32_t, std::int64_t) {
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(5); ++round) {
    const std::int64_t tokens = round == 0 ? 0 : random.integer(1, quick() ? 900 : 300),
                       k = random.integer(1, quick() ? 8 : 4), count = random.integer(1, 256),
                       pairs = tokens * k;
    // Sometimes nearly all pairs have one expert, and some experts are of other processes.
    const bool crowded = random.integer(0, 1);
    const std::int64_t low = -random.integer(0, 2), high = count - 1 + random.integer(0, 2);
    Strided<TestType, 2> experts(random, {tokens, k}, [&] {
      return static_cast<double>(crowded && random.integer(0, 9) ? count - 1 : random.integer(low, high));
    });
    Strided<std::int32_t, 1> offsets(random, {count + 1});
    Strided<TestType, 1> order(random, {pairs});
    Strided<std::int32_t, 2> place(random, {tokens, k});
    INFO(count << " experts, " << experts.layout() << "; place " << place.layout());
    on_test_device([](Stream& s, auto experts, auto offsets, auto order,
                      auto place) { ops::group_by_expert(s, experts, offsets, order, place); },
                   experts.view, offsets.view, order.view, place.view);
    const auto expert = [&](std::int64_t pair) {
      return static_cast<std::int64_t>(experts(pair / k, pair % k));
    };
    std::vector<double> begin, sorted, at(index(pairs), -1);
    for (std::int64_t e = 0; e < count; ++e) {
      begin.push_back(static_cast<double>(sorted.size()));
      for (std::int64_t pair = 0; pair < pairs; ++pair)
        if (expert(pair) == e) {
          at[index(pair)] = static_cast<double>(sorted.size());
          sorted.push_back(static_cast<double>(pair));
        }
    }
    begin.push_back(static_cast<double>(sorted.size()));
    sorted.resize(index(pairs), -1);
    offsets.check(0, [&](auto e) { return begin[index(e)]; });
    order.check(0, [&](auto i) { return sorted[index(i)]; });
    place.check(0, [&](auto t, auto s) { return at[index(t * k + s)]; });
  }
}

TEMPLATE_TEST_CASE("rows are copied to the order of experts, and their results are added up", "", float, bf16,
                   double) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(3); ++round) {
    const std::int64_t tokens = random.integer(1, quick() ? 50 : 5), k = random.integer(1, 6),
                       pairs = tokens * k, n = random.integer(1, quick() ? 300 : 40);
    std::vector<std::int64_t> shuffled(index(pairs));
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const auto left_out = [&](std::int64_t pair) { return pair % 7 == 3; };
    Strided<std::int32_t, 1> order(
        random, {pairs}, [&](auto i) { return left_out(shuffled[index(i)]) ? -1 : shuffled[index(i)]; });
    Strided<std::int64_t, 2> place(random, {tokens, k});
    for (std::int64_t i = 0; i < pairs; ++i)
      place.view(shuffled[index(i)] / k, shuffled[index(i)] % k) = left_out(shuffled[index(i)]) ? -1 : i;
    Strided<T, 2> x(random, {tokens, n}, uniform(random, -1, 1)), y(random, {pairs, n}),
        results(random, {pairs, n}, uniform(random, -1, 1)), sums(random, {tokens, n}),
        plain(random, {tokens, n});
    Strided<float, 2> weights(random, {tokens, k}, uniform(random, -1, 1));
    for (std::int64_t i = 0; i < pairs; ++i) // rows without a pair are not read
      for (std::int64_t j = 0; order(i) < 0 && j < n; ++j)
        results.view(i, j) = T(NAN);
    on_test_device(
        [&](Stream& s, auto x, auto order, auto y, auto results, auto place, auto weights, auto sums,
            auto plain) {
          ops::permute_rows(s, x, order, y, {.slots = k});
          ops::combine_rows(s, results, place, weights, sums);
          ops::combine_rows(s, results, place, {}, plain);
        },
        x.view, order.view, y.view, results.view, place.view, weights.view, sums.view, plain.view);
    y.check(0, [&](auto i, auto j) {
      const auto pair = static_cast<std::int64_t>(order(i));
      return pair < 0 ? 0 : x(pair / k, j);
    });
    const auto sum = [&](auto t, auto j, bool weighted) {
      double total = 0;
      for (std::int64_t s = 0; s < k; ++s)
        if (const auto at = static_cast<std::int64_t>(place(t, s)); at >= 0)
          total += (weighted ? weights(t, s) : 1) * results(at, j);
      return total;
    };
    sums.check(4 * tolerance<T>(), [&](auto t, auto j) { return sum(t, j, true); });
    plain.check(4 * tolerance<T>(), [&](auto t, auto j) { return sum(t, j, false); });
  }
}

TEST_CASE("a mixture of experts agrees with one token at a time") {
  Random random;
  KILN_SEED(random);
  const std::int64_t tokens = quick() ? 300 : 20, count = 7, k = 3, width = 20, hidden = 30;
  Strided<float, 2> x(random, {tokens, width}, uniform(random, -1, 1)),
      logits(random, {tokens, count}, uniform(random, -3, 3)), y(random, {tokens, width}),
      grouped(random, {tokens * k, width}), inner(random, {tokens * k, hidden}),
      outer(random, {tokens * k, width}), weights(random, {tokens, k});
  Strided<float, 3> up(random, {count, width, hidden}, uniform(random, -1, 1)),
      down(random, {count, hidden, width}, uniform(random, -1, 1));
  Strided<std::int32_t, 2> experts(random, {tokens, k}), place(random, {tokens, k});
  Strided<std::int32_t, 1> offsets(random, {count + 1}), order(random, {tokens * k});
  on_test_device(
      [&](Stream& s, auto x, auto logits, auto experts, auto weights, auto offsets, auto order, auto place,
          auto grouped, auto up, auto inner, auto down, auto outer, auto y) {
        ops::route_topk(s, logits, experts, weights, {.renormalise = true});
        ops::group_by_expert(s, experts, offsets, order, place);
        ops::permute_rows(s, x, order, grouped, {.slots = k});
        ops::grouped_matmul(s, grouped, up, offsets, inner, {.activation = ops::Activation::relu});
        ops::grouped_matmul(s, inner, down, offsets, outer);
        ops::combine_rows(s, outer, place, weights, y);
      },
      x.view, logits.view, experts.view, weights.view, offsets.view, order.view, place.view, grouped.view,
      up.view, inner.view, down.view, outer.view, y.view);
  std::vector<double> expected(index(tokens * width));
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t s = 0; s < k; ++s)
      for (std::int64_t h = 0; h < hidden; ++h) {
        const auto e = static_cast<std::int64_t>(experts(t, s));
        double z = 0;
        for (std::int64_t i = 0; i < width; ++i)
          z += x(t, i) * up(e, i, h);
        for (std::int64_t j = 0; z > 0 && j < width; ++j)
          expected[index(t * width + j)] += weights(t, s) * z * down(e, h, j);
      }
  y.check(1e-5, [&](auto t, auto j) { return expected[index(t * width + j)]; });
}

TEST_CASE("wrong arguments of routing are errors") {
  auto logits = Tensor<float, 2>::zeros({5, 4}), weights = Tensor<float, 2>::zeros({5, 2}),
       wide = Tensor<float, 2>::zeros({5, 5});
  auto experts = Tensor<int, 2>::zeros({5, 2}), place = Tensor<int, 2>::zeros({5, 2}),
       many = Tensor<int, 2>::zeros({5, 5});
  auto offsets = Tensor<int, 1>::zeros({5}), order = Tensor<int, 1>::zeros({10}),
       few = Tensor<int, 1>::zeros({9});
  Stream stream;
  const auto error_of = [&](const auto& call) {
    std::string text = "no error";
    try {
      call();
    } catch (const UserError& e) {
      text = e.what();
    }
    return text.substr(text.find("ops::") == text.npos ? 0 : text.find("ops::"));
  };
  const std::string ends = "; pass tensors whose extents match";
  CHECK(error_of([&] { ops::route_topk(stream, logits, many, wide); }) ==
        "ops::route_topk: experts has more columns than logits; choose at most as many experts as there are");
  CHECK(error_of([&] { ops::route_topk(stream, logits, experts, wide); }) ==
        "ops::route_topk: experts has extents {5, 2} and weights {5, 5}; pass tensors of the same extents");
  CHECK(error_of([&] { ops::route_topk(stream, logits, weights, weights); }) ==
        "ops::route_topk: experts are of neither i32 nor i64; pass a tensor of one of these dtypes");
  CHECK(error_of([&] { ops::group_by_expert(stream, experts, offsets, few, place); }) ==
        "ops::group_by_expert: order's size and experts' elements differ: 9 != 10" + ends);
  CHECK(error_of([&] { ops::group_by_expert(stream, experts, offsets, order, experts); }) ==
        "ops::group_by_expert: place overlaps experts, which is read while it is written; give it memory of "
        "its "
        "own");
  CHECK(error_of([&] { ops::permute_rows(stream, logits, order, wide, {.slots = 0}); }) ==
        "ops::permute_rows: slots is below 1; pass the number of experts of a token");
  CHECK(error_of([&] { ops::permute_rows(stream, logits, order, wide); }) ==
        "ops::permute_rows: order's size and y's rows differ: 10 != 5" + ends);
  CHECK(error_of([&] { ops::combine_rows(stream, logits, place, {}, wide); }) ==
        "ops::combine_rows: rows' columns and y's columns differ: 4 != 5" + ends);
  stream.synchronize();
}
