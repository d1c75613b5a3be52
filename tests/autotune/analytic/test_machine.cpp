// Tests measuring a machine, and storing and reading its rates.
#include <kiln/autotune/analytic/machine.h>

#include "autotune/records/records_support.h"

#include <kiln/autotune/analytic/machine_file.h>

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::tune;

TEST_CASE("measuring a machine ends on request and then stores nothing") {
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

TEST_CASE("an emulated GPU is never measured") {
  const records_test::TemporaryFolder folder;
  int asked = 0;
  const Machine m =
      machine_of(Device::emulated("sm_80"), folder.path(), true, [&asked] { return ++asked > 0; });
  CHECK_FALSE(m.measured);
  CHECK(asked == 0);
  CHECK_FALSE(kept_machine(Device::emulated("sm_80"), folder.path()));
}

TEST_CASE("every rate of a stored machine is read back, for that device only") {
  const records_test::TemporaryFolder folder;
  const Device device = Device::emulated("sm_80");
  CHECK_FALSE(kept_machine(device, folder.path()));
  Machine m;
  double next = 1e9;
  m.threads = 7;
  for (double* rate : {&m.launch, &m.program, &m.memory, &m.last_cache, &m.private_cache, &m.last_cache_bytes,
                       &m.private_cache_bytes, &m.f32, &m.f64, &m.bf16, &m.i8, &m.elementwise, &m.registers,
                       &m.shared_bytes, &m.warps})
    *rate = next += 1;
  keep_machine(m, device, folder.path());
  const auto kept = kept_machine(device, folder.path());
  REQUIRE(kept);
  CHECK(kept->measured);
  CHECK(kept->threads == 7);
  CHECK(kept->launch == m.launch);
  CHECK(kept->program == m.program);
  CHECK(kept->memory == m.memory);
  CHECK(kept->last_cache == m.last_cache);
  CHECK(kept->private_cache == m.private_cache);
  CHECK(kept->last_cache_bytes == m.last_cache_bytes);
  CHECK(kept->private_cache_bytes == m.private_cache_bytes);
  CHECK(kept->f32 == m.f32);
  CHECK(kept->f64 == m.f64);
  CHECK(kept->bf16 == m.bf16);
  CHECK(kept->i8 == m.i8);
  CHECK(kept->elementwise == m.elementwise);
  CHECK(kept->registers == m.registers);
  CHECK(kept->shared_bytes == m.shared_bytes);
  CHECK(kept->warps == m.warps);
  CHECK_FALSE(kept_machine(Device::emulated("sm_90a"), folder.path()));
  CHECK_FALSE(kept_machine(Device::cpu(), folder.path()));
  forget_machine(device, folder.path());
  CHECK_FALSE(kept_machine(device, folder.path()));
}
