// Times of a machine whose speed changes.
#include <kiln/autotune/measure/drift.h>

#include <catch2/catch.hpp>

using namespace kiln::tune;

TEST_CASE("an anchor follows the machine, and one disturbed time does not move it") {
  DriftAnchor anchor;
  CHECK(anchor.empty());
  CHECK(anchor.lately() == 0);
  anchor.add(1.0);
  CHECK(anchor.lately() == 1.0);
  anchor.add(1.1);
  anchor.add(9.0); // something came between
  CHECK(anchor.last() == 9.0);
  CHECK(anchor.lately() == 1.1);
  anchor.add(1.2);
  CHECK(anchor.lately() == 1.2);
  anchor.add(1.3);
  CHECK(anchor.lately() == 1.3);
}

TEST_CASE("without drift a trial of a slow minute takes as long as one of a fast minute") {
  Measurement early, late;
  early.seconds = 2.0, early.low = 1.9, early.high = 2.1, early.relative = 0.5; // the reference took 4 s then
  late.seconds = 3.0, late.low = 2.85, late.high = 3.15, late.relative = 0.5;   // and takes 6 s now
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
