// Tests the progress line of tuning runs.
#include <kiln/autotune/cli/progress.h>

#include <catch2/catch.hpp>

#include <pty.h>
#include <unistd.h>

using namespace kiln::tune;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

struct Run {
  BoundSpace space = [] {
    Space space;
    for (const char* name : {"BM", "BN", "BK", "num_warps", "unroll", "stages"})
      space.range(name, 1, 128);
    return BoundSpace(space, {}, {});
  }();
  SearchResult result = [] {
    SearchResult result;
    Trial trial;
    trial.point = {127, 127, 127, 127, 127, 127};
    trial.result.status = Status::ok;
    trial.result.seconds = 42.2e-6;
    result.trials.assign(8, trial);
    result.seconds = 3;
    return result;
  }();

  std::string text(std::size_t columns) const {
    return ProgressLine::text("matmul", result, space, {.trials = 32}, 35.4e-6, 33e6, columns);
  }
};

} // namespace

TEST_CASE("a progress line that is too long for the terminal is cut, first in the config") {
  const Run run;
  const std::string whole = run.text(std::string::npos);
  CHECK_THAT(whole, Contains("{BM=128,BN=128,BK=128,num_warps=128,unroll=128,stages=128}"));
  CHECK(run.text(whole.size()) == whole);
  for (std::size_t columns = 1; columns < whole.size(); ++columns) {
    const std::string cut = run.text(columns);
    CAPTURE(columns, cut);
    CHECK(cut.size() <= columns);
    CHECK_THAT(cut, StartsWith(whole.substr(0, std::min<std::size_t>(columns, 40))));
    if (columns > 100) CHECK_THAT(cut, EndsWith("s left") && Contains("{BM=") && Contains("...}"));
  }
}

TEST_CASE("a time below the model's bound is not shown as a percentage") {
  CHECK(share_of_bound(35.4e-6, 42.2e-6) == "84 % of the bound");
  CHECK(share_of_bound(42.2e-6, 42.2e-6) == "100 % of the bound");
  CHECK(share_of_bound(50e-6, 42.2e-6) == "faster than the model's bound");
  const Run run;
  CHECK_THAT(ProgressLine::text("matmul", run.result, run.space, {.trials = 32}, 50e-6, 0, 200),
             Contains("best 42.20 us, faster than the model's bound"));
}

TEST_CASE("a progress line never fills a line of the terminal") {
  int terminal = -1, program = -1;
  winsize size{.ws_row = 10, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(openpty(&terminal, &program, nullptr, nullptr, &size) == 0);
  std::FILE* out = fdopen(program, "w");
  Run run;
  ProgressLine line("matmul", {.trials = 32}, 33e6, out);
  line.show(run.result, run.space, 35.4e-6);
  line.show(run.result, run.space, 35.4e-6);
  std::fclose(out);
  // A read may return only the first line. It fails once the program's side is closed and everything is read.
  std::string text;
  char shown[1024];
  for (ssize_t count; (count = read(terminal, shown, sizeof shown)) > 0;)
    text.append(shown, static_cast<std::size_t>(count));
  close(terminal);
  CHECK(text.size() == 2 * 60); // a carriage return and 59 characters each
  CHECK(text.substr(0, 60) == text.substr(60));
}
