// Tests the correction of timings for drift of the machine's speed.
#include <kiln/autotune/measure/drift.h>

#include <catch2/catch.hpp>

using namespace kiln::tune;

TEST_CASE("the drift anchor follows the machine, and one disturbed time does not change it") {
  DriftAnchor anchor;
  CHECK(anchor.empty());
  CHECK(anchor.recent() == 0);
  anchor.add(1.0);
  CHECK(anchor.recent() == 1.0);
  anchor.add(1.1);
  anchor.add(9.0); // disturbed
  CHECK(anchor.last() == 9.0);
  CHECK(anchor.recent() == 1.1);
  anchor.add(1.2);
  CHECK(anchor.recent() == 1.2);
  anchor.add(1.3);
  CHECK(anchor.recent() == 1.3);
}

TEST_CASE("a mistimed anchor does not make trials many times faster") {
  DriftAnchor anchor;
  anchor.add(4e-6);
  for (int i = 0; i < 3; ++i)
    anchor.add(60e-6); // a thread had to be woken each time
  CHECK(anchor.recent() == Approx(12e-6));
  for (int i = 0; i < 3; ++i)
    anchor.add(1e-7);
  CHECK(anchor.recent() == Approx(4e-6 / 3));
}

TEST_CASE("after the correction trials of slow and of fast minutes have equal times") {
  Measurement early, late;
  early.seconds = 2.0, early.low = 1.9, early.high = 2.1, early.relative = 0.5; // the reference took 4 s
  late.seconds = 3.0, late.low = 2.85, late.high = 3.15, late.relative = 0.5;   // the reference took 6 s
  remove_drift(early, 4.0);
  remove_drift(late, 4.0);
  CHECK(late.seconds == Approx(2.0));
  CHECK(late.low == Approx(early.low));
  CHECK(late.high == Approx(early.high));
  CHECK(late.facts.at("drift") == Approx(1.5));
  CHECK(early.facts.at("drift") == Approx(1.0));
  Measurement alone;
  alone.seconds = 1;
  remove_drift(alone, 4.0);
  CHECK(alone.seconds == 1);
  CHECK(alone.facts.empty());
}

TEST_CASE("a trial interleaved with a disturbed reference is not faster than its quickest sample") {
  Measurement best, reference;
  best.seconds = 230e-6, best.facts["quickest"] = 205e-6, best.relative = 230.0 / 420;
  reference.seconds = 420e-6, reference.facts["quickest"] = 215e-6, reference.relative = 1; // 220 us at first
  const double seconds = credible_reference({best, reference}, 220e-6);
  CHECK(seconds == Approx(205e-6 * 420 / 230));
  remove_drift(best, seconds);
  CHECK(best.seconds == Approx(205e-6));
  best.facts["quickest"] = 110e-6;
  CHECK(credible_reference({best, reference}, 220e-6) == Approx(220e-6));
}
