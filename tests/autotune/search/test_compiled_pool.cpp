// The pool of compiled candidates in the loop of a search: who is run, what counts as a trial, and when there
// is none.
#include <kiln/autotune/search/search.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

using namespace kiln;
using namespace kiln::tune;

namespace {

// Points 0, 1, 2, ... of a space of one knob; of those compiled, it runs the ones with the fewest registers
// and proposes the others again.
struct Thrifty : Strategy {
  bool spares_some = true;
  std::uint16_t next = 0, last = 1000;
  std::vector<std::uint16_t> again;
  std::vector<std::size_t> pools;
  std::size_t batch() const override { return 4; }
  const char* name() const override { return "thrifty"; }
  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> proposals;
    for (; proposals.size() < most && next < last; ++next)
      proposals.push_back({{next}, "new", 0});
    for (; proposals.size() < most && !again.empty(); again.pop_back())
      proposals.push_back({{again.back()}, "again", 0});
    return proposals;
  }
  void observe(std::span<const Trial>) override {}
  std::vector<Proposal> spares(std::size_t most) override {
    return spares_some ? propose(most) : std::vector<Proposal>();
  }
  std::vector<std::size_t> choose(std::span<const Proposal> proposals, std::span<const Measurement> compiled,
                                  std::size_t most) override {
    pools.push_back(proposals.size());
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < proposals.size(); ++i)
      if (compiled[i].ok()) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return compiled[a].facts.at("registers") < compiled[b].facts.at("registers");
    });
    for (; order.size() > most; order.pop_back())
      again.push_back(proposals[order.back()].point[0]);
    return order;
  }
};

// Odd points need many registers, and those divisible by `failing` do not compile.
struct Compiler : Measurer {
  std::uint16_t failing = 0;
  double compile_seconds = 0.01, run_seconds = 1;
  std::size_t side_by_side = 2, most_compiled = SIZE_MAX;
  std::vector<std::uint16_t> ran, asked; // to compile alone
  std::function<void()> on_compile = [] {};

  Measurement made(std::uint16_t i) const {
    Measurement m;
    m.compile_seconds = compile_seconds;
    if (failing > 0 && i % failing == 0)
      m.status = Status::compile_error;
    else
      m.facts["registers"] = i % 2 ? 255 : 32;
    return m;
  }
  std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener) override {
    std::vector<Measurement> results;
    for (const Point& p : points) {
      if (most_compiled < SIZE_MAX) return results; // interrupted
      Measurement m = made(p[0]);
      if (m.ok()) m.seconds = 2000. - p[0], m.run_seconds = run_seconds, ran.push_back(p[0]);
      results.push_back(std::move(m));
      if (listener && !listener(results.back())) break;
    }
    return results;
  }
  std::vector<Measurement> confirm(std::span<const Point>) override { return {}; }
  std::size_t compilers() const override { return side_by_side; }
  std::vector<Measurement> compile(std::span<const Point> points) override {
    on_compile();
    std::vector<Measurement> results;
    for (const Point& p : points.first(std::min(points.size(), most_compiled))) {
      asked.push_back(p[0]);
      results.push_back(made(p[0]));
    }
    return results;
  }
};

Budget trials(int n) {
  Budget b;
  b.trials = n;
  b.seconds = 0;
  b.confirm = 0;
  return b;
}

} // namespace

TEST_CASE("of a pool that is compiled, what the strategy chooses is run, and the others are no trials") {
  Thrifty strategy;
  Compiler measurer;
  const SearchResult r = search(strategy, measurer, trials(16));
  CHECK(r.stopped_by == "trials");
  CHECK(r.trials.size() == 16);
  CHECK(strategy.pools == std::vector<std::size_t>{8, 8, 8, 8});
  for (std::uint16_t i : measurer.ran)
    CHECK(i % 2 == 0);
  const std::set<std::uint16_t> ran(measurer.ran.begin(), measurer.ran.end()),
      compiled(measurer.asked.begin(), measurer.asked.end());
  CHECK(ran.size() == 16); // each once
  CHECK(r.compiled_only == compiled.size() - ran.size());
  CHECK(r.compiled_only_seconds == Approx(0.01 * static_cast<double>(r.compiled_only)));
}

TEST_CASE("what was compiled and not run can be proposed again, and a search ends with its space") {
  Thrifty strategy;
  strategy.last = 30;
  Compiler measurer;
  const SearchResult r = search(strategy, measurer, trials(1000));
  CHECK(r.stopped_by == "exhausted");
  CHECK(r.trials.size() == 30);
  CHECK(r.compiled_only == 0);
  CHECK(r.compiled_only_seconds == 0);
}

TEST_CASE("what does not compile is a trial, and never one too many") {
  for (const std::uint16_t failing : {1, 2, 3, 5}) {
    for (const int most : {7, 10, 40}) {
      CAPTURE(failing, most);
      Thrifty strategy;
      Compiler measurer;
      measurer.failing = failing;
      const SearchResult r = search(strategy, measurer, trials(most));
      CHECK(r.stopped_by == "trials");
      CHECK(r.trials.size() == static_cast<std::size_t>(most));
      std::set<Point> points;
      for (const Trial& t : r.trials)
        CHECK(points.insert(t.point).second);
      for (const Trial& t : r.trials)
        CHECK(t.result.ok() == (t.point[0] % failing != 0));
      CHECK(measurer.ran.size() ==
            static_cast<std::size_t>(std::count_if(r.trials.begin(), r.trials.end(),
                                                   [](const Trial& t) { return t.result.ok(); })));
    }
  }
}

TEST_CASE("nothing is compiled that is not run where that is dear, not possible, or of no use") {
  Thrifty strategy;
  Compiler measurer;
  SECTION("it takes long beside running") {
    measurer.compile_seconds = 0.5;
    const SearchResult r = search(strategy, measurer, trials(32));
    CHECK(strategy.pools.size() == 1); // before anything is known
    CHECK(r.trials.size() == 32);
    return;
  }
  SECTION("many compilers make up for it") {
    measurer.compile_seconds = 0.5;
    measurer.side_by_side = 8;
    search(strategy, measurer, trials(32));
    CHECK(strategy.pools.size() == 8);
    return;
  }
  SECTION("a measurer that cannot compile alone") { measurer.side_by_side = 0; }
  SECTION("a strategy that has no spares") { strategy.spares_some = false; }
  CHECK(search(strategy, measurer, trials(32)).trials.size() == 32);
  CHECK(measurer.asked.empty());
}

TEST_CASE("a batch that the budget cuts short has no pool") {
  Thrifty strategy;
  Compiler measurer;
  CHECK(search(strategy, measurer, trials(10)).trials.size() == 10);
  CHECK(strategy.pools.size() == 2);
}

TEST_CASE("a search ends when its time is up while it compiles, with a trial of what was chosen") {
  Thrifty strategy;
  Compiler measurer;
  measurer.on_compile = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  Budget budget = trials(1000);
  budget.seconds = 0.05;
  const SearchResult r = search(strategy, measurer, budget);
  CHECK(r.stopped_by == "seconds");
  CHECK(r.trials.size() == 1);
  CHECK(r.measure_seconds >= 0.06);
}

TEST_CASE("the compilers' time for what a stop keeps from running is told, whether it was chosen or failed") {
  Thrifty strategy;
  Compiler measurer;
  measurer.failing = 7; // of the first eight points 0 and 7, which come first
  std::size_t stop_after = 0;
  SECTION("before what was chosen") { stop_after = 1; }
  SECTION("amid it") { stop_after = 4; }
  SECTION("after the batch") { stop_after = 6; }
  const SearchResult r = search(strategy, measurer, trials(100), [&](const SearchResult& so_far) {
    return so_far.trials.size() < stop_after;
  });
  CHECK(r.stopped_by == "interrupted");
  CHECK(r.trials.size() == stop_after);
  CHECK(r.compiled_only == 8 - stop_after);
  CHECK(r.compiled_only_seconds == Approx(0.01 * static_cast<double>(8 - stop_after)));
}

TEST_CASE("compilers' time that no trial has is told where the measurer knows it, without a pool too") {
  struct Counted final : Compiler {
    double compiler_seconds() const override { return 7; }
    std::size_t compilers() const override { return 0; }
  } measurer;
  Thrifty strategy;
  const SearchResult r = search(strategy, measurer, trials(10));
  CHECK(strategy.pools.empty());
  double of_trials = 0;
  for (const Trial& trial : r.trials)
    of_trials += trial.result.compile_seconds;
  CHECK(r.compiled_only == 0);
  CHECK(r.compiled_only_seconds == Approx(7 - of_trials));
}

TEST_CASE("the time that a strategy takes to choose is not measuring") {
  struct Slow final : Thrifty {
    std::vector<std::size_t> choose(std::span<const Proposal> proposals,
                                    std::span<const Measurement> compiled, std::size_t most) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return Thrifty::choose(proposals, compiled, most);
    }
  } strategy;
  Compiler measurer;
  const SearchResult r = search(strategy, measurer, trials(4));
  REQUIRE(strategy.pools.size() == 1);
  CHECK(r.model_seconds >= 0.02);
  CHECK(r.measure_seconds < r.model_seconds);
}

TEST_CASE("an interruption between compiling and running ends the search") {
  Thrifty strategy;
  Compiler measurer;
  measurer.most_compiled = 3;
  const SearchResult r = search(strategy, measurer, trials(100));
  CHECK(r.stopped_by == "interrupted");
  CHECK(r.trials.empty());
  CHECK(strategy.pools.empty());
  CHECK(r.compiled_only == 3);
}

TEST_CASE("searches that share a question compile what they run") {
  Thrifty strategy;
  Compiler measurer;
  const Others others = [] { return News{.trials = {}, .searches = 2, .own_rank = 0}; };
  const SearchResult r = search(strategy, measurer, trials(32), {}, others);
  CHECK(r.trials.size() == 32);
  CHECK(strategy.pools.size() == 1); // before it has heard of the other
}
