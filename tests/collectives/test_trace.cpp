// Tests traces of transfers that ranks make while they wait, and pictures of traces.
#include "findings.h"

#include <kiln/collectives/ranks.h>
#include <kiln/collectives/trace.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

using namespace kiln;
using namespace kiln::collectives;

TEST_CASE("without a link, a transfer is in a trace while it is copied, and not while it waits for that") {
  Trace trace;
  constexpr int ranks = 4;
  run_ranks({.ranks = ranks, .trace = &trace}, [&](Communicator& comm) {
    Stream stream;
    auto x = test::full(200, 512, 2), y = test::full(200 * ranks, 512, 0);
    Work gathering = comm.async_all_gather(stream, x, y);
    // Rank 0 copies everything.
    if (comm.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    gathering.wait();
  });
  auto spans = trace.spans();
  std::erase_if(spans, [](const Trace::Span& s) { return s.track != Trace::Track::transfers; });
  CHECK(spans.size() == ranks * (ranks - 1));
  int overlaps = 0;
  for (std::size_t i = 1; i < spans.size(); ++i)
    overlaps += spans[i].begin < spans[i - 1].end;
  CHECK(overlaps <= 3); // if the system stops rank 0 for so long that another one copies the rest
}

TEST_CASE("pictures of traces are valid, whatever is in the tags and however many there are") {
  Trace trace;
  for (int i = 0; i < 1000; ++i)
    trace.add({i % 4, Trace::Track::transfers,
               "put #0 [a\xff<b>&\"'\n\x01\xe2\x82\xac" + std::to_string(i) + "]", 100 * i, 100 * i + 50, 8});
  const std::string picture = trace.svg();
  CHECK(picture.find('\xff') == std::string::npos);
  CHECK_THAT(picture, Catch::Contains("a\xef\xbf\xbd&lt;b>&amp;\"'\xe2\x82\xac"));
  // All tags of the legend are inside of the picture.
  double width = 0, height = 0;
  REQUIRE(std::sscanf(picture.c_str(), "%*[^\"]\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %lf %lf", &width,
                      &height) == 2);
  for (std::size_t at = picture.find("<text x="); at != std::string::npos;
       at = picture.find("<text x=", at + 1)) {
    int x = 0, y = 0;
    REQUIRE(std::sscanf(picture.c_str() + at, "<text x=\"%d\" y=\"%d\"", &x, &y) == 2);
    CHECK((x >= 0 && x < width && y > 0 && y < height));
  }
}
