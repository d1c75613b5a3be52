// Tests the pool of compiled candidates: which of them run, what counts as a trial, and when there is no
// pool.
#include <kiln/autotune/search/search.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

using namespace kiln;
using namespace kiln::tune;

namespace {

// Proposes points 0, 1, 2, ... of a space with one knob. Of the compiled ones it runs those with the fewest
// registers, and it proposes the others again later.
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

// Odd points need many registers, and points divisible by `failing` do not compile.
struct Compiler : Measurer {
  std::uint16_t failing = 0;
  double compile_seconds = 0.01, run_seconds = 1;
  std::size_t parallel = 2, most_compiled = SIZE_MAX;
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
  std::size_t compilers() const override { return parallel; }
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

TEST_CASE("only the chosen candidates of a compiled pool are run and count as trials") {
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

TEST_CASE("candidates that were compiled but not run can be proposed again, and a search covers its space") {
  Thrifty strategy;
  strategy.last = 30;
  Compiler measurer;
  const SearchResult r = search(strategy, measurer, trials(1000));
  CHECK(r.stopped_by == "exhausted");
  CHECK(r.trials.size() == 30);
  CHECK(r.compiled_only == 0);
  CHECK(r.compiled_only_seconds == 0);
}

TEST_CASE("a candidate that does not compile is a trial, and the number of trials stays within the budget") {
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

TEST_CASE("there is no pool if compiling is expensive, impossible alone, or useless") {
  Thrifty strategy;
  Compiler measurer;
  SECTION("compiling takes long compared with running") {
    measurer.compile_seconds = 0.5;
    const SearchResult r = search(strategy, measurer, trials(32));
    CHECK(strategy.pools.size() == 1); // before anything is known
    CHECK(r.trials.size() == 32);
    return;
  }
  SECTION("many compilers compensate for that") {
    measurer.compile_seconds = 0.5;
    measurer.parallel = 8;
    search(strategy, measurer, trials(32));
    CHECK(strategy.pools.size() == 8);
    return;
  }
  SECTION("a measurer that cannot compile alone") { measurer.parallel = 0; }
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

TEST_CASE("a search whose time ends during compiling measures one chosen candidate") {
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

TEST_CASE("the compilers' time for candidates that a stop keeps from running is reported") {
  Thrifty strategy;
  Compiler measurer;
  measurer.failing = 7; // points 0 and 7 of the first eight, which come first
  std::size_t stop_after = 0;
  SECTION("before the chosen ones") { stop_after = 1; }
  SECTION("among the chosen ones") { stop_after = 4; }
  SECTION("after the batch") { stop_after = 6; }
  const SearchResult r = search(strategy, measurer, trials(100), [&](const SearchResult& so_far) {
    return so_far.trials.size() < stop_after;
  });
  CHECK(r.stopped_by == "interrupted");
  CHECK(r.trials.size() == stop_after);
  CHECK(r.compiled_only == 8 - stop_after);
  CHECK(r.compiled_only_seconds == Approx(0.01 * static_cast<double>(8 - stop_after)));
}

TEST_CASE("compilers' time outside of trials is reported, also without a pool") {
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

TEST_CASE("the time that a strategy takes to choose does not count as measuring") {
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

TEST_CASE("searches that share a key have no pool") {
  Thrifty strategy;
  Compiler measurer;
  const Others others = [] { return News{.trials = {}, .searches = 2, .own_rank = 0}; };
  const SearchResult r = search(strategy, measurer, trials(32), {}, others);
  CHECK(r.trials.size() == 32);
  CHECK(strategy.pools.size() == 1); // before it knows of the other
}
