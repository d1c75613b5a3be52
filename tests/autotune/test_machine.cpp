// What is known of a machine, and where it is kept.
#include <kiln/autotune/analytic/machine.h>

#include "records/records_support.h"

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::tune;

TEST_CASE("measuring a machine ends when it is told to, and is not kept") {
  const records_test::TemporaryFolder folder;
  int left = 3;
  const Machine stopped = machine_of(Device::cpu(), folder.path(), true, [&left] { return --left <= 0; });
  CHECK(left == 0);
  CHECK_FALSE(stopped.measured);
  CHECK(stopped.memory == assumed_machine(Device::cpu()).memory);
  CHECK_FALSE(machine_of(Device::cpu(), folder.path(), false).measured);
}

TEST_CASE("a machine is measured once") {
  const records_test::TemporaryFolder folder;
  const Machine measured = machine_of(Device::cpu(), folder.path());
  CHECK(measured.measured);
  const Machine kept = machine_of(Device::cpu(), folder.path(), true, [] { return true; });
  CHECK(kept.measured);
  CHECK(kept.memory == measured.memory);
  forget_machine(Device::cpu(), folder.path());
  CHECK_FALSE(machine_of(Device::cpu(), folder.path(), false).measured);
}
