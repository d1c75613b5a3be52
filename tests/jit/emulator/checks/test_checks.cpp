// Tests the names of the checks of the emulated GPU.
#include "jit/emulator/small_kernel.h"

#include <kiln/dsl/error.h>
#include <nlohmann/json.hpp>

using namespace kiln;
using emulator::Checks;

TEST_CASE("a list of checks by name", "[emulator]") {
  CHECK(Checks::parse("races").races);
  CHECK_FALSE(Checks::parse("races").uninitialised);
  const Checks three = Checks::parse("races,init,bounds");
  CHECK((three.races && three.uninitialised));
  CHECK((Checks::parse("all").races && Checks::parse("all").uninitialised));
  const Checks none = Checks::parse("bounds,barriers");
  CHECK_FALSE((none.races || none.uninitialised));
  CHECK_FALSE(Checks::parse("all,none").races);
  CHECK_THROWS_WITH(Checks::parse("races,rices"),
                    Catch::Contains("the check 'rices' is not known; races, init, "
                                    "bounds, barriers, all and none are"));
}
