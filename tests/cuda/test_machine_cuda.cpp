// Tests measuring the limits of a CUDA device with the fake driver. Its kernels take no time or a constant
// time, so nearly all measurements are implausible.
#include "cuda_test.h"
#include "temporary_folder.h"

#include <kiln/autotune/analytic/assumed.h>
#include <kiln/autotune/analytic/machine_file.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

TEST_CASE("rates that the clocks do not allow are replaced by the assumed ones") {
  FreshFake fresh;
  fake().set("elapsed_ns", 100); // launching alone may take as long as products on a busy host
  const TemporaryFolder folder;
  const Device device = Device::cuda(23);
  const Machine assumed = assumed_machine(device), m = machine_of(device, folder.path());
  CHECK(fake().launch_count() > 0);
  CHECK(m.memory == assumed.memory);
  CHECK(m.f32 == assumed.f32);
  CHECK(m.f64 == assumed.f64);
  CHECK(m.bf16 == assumed.bf16);
  CHECK(m.i8 == assumed.i8);
  CHECK(m.elementwise == assumed.elementwise);
}

TEST_CASE("plausible measurements are stored, with assumed values for the rest") {
  FreshFake fresh;
  fake().set("kernel_ms", 1); // about as long as f32 dots of these sizes
  const TemporaryFolder folder;
  const Device device = Device::cuda(24);
  const Machine assumed = assumed_machine(device), m = machine_of(device, folder.path());
  CHECK(m.measured);
  CHECK(m.f32 != assumed.f32);
  CHECK(m.f32 == Approx(assumed.f32 / 2).epsilon(0.3));
  CHECK(m.launch == assumed.launch); // a kernel of a millisecond cannot be empty
  CHECK(m.memory == assumed.memory);
  CHECK(m.bf16 == assumed.bf16);
  const int launches = fake().launch_count();
  const Machine kept = machine_of(device, folder.path());
  CHECK(kept.measured);
  CHECK(kept.f32 == Approx(m.f32));
  CHECK(fake().launch_count() == launches);
}

TEST_CASE("measuring a CUDA device ends if requested, and nothing is stored") {
  FreshFake fresh;
  const TemporaryFolder folder;
  const Device device = Device::cuda(25);
  int left = 20;
  const Machine stopped = machine_of(device, folder.path(), true, [&left] { return --left <= 0; });
  CHECK(left == 0);
  CHECK_FALSE(stopped.measured);
  CHECK_FALSE(kept_machine(device, folder.path()));
}

TEST_CASE("if a device fails while it is measured, values are assumed and not stored") {
  FreshFake fresh;
  fake().set("kernel_result", 700);
  const TemporaryFolder folder;
  const Device device = Device::cuda(26);
  const Machine m = machine_of(device, folder.path());
  CHECK_FALSE(m.measured);
  CHECK(m.f32 == assumed_machine(device).f32);
  CHECK(machine_of(device, folder.path()).f32 == m.f32); // also while the device is lost
  CHECK_FALSE(kept_machine(device, folder.path()));
}

TEST_CASE("a GPU whose driver reports no clocks is assumed to be the best known board of its architecture") {
  FreshFake fresh;
  fake().set("clocks", -1);
  const Machine m = assumed_machine(Device::cuda(27));
  DeviceProperties known = Device::cuda(27).properties();
  CHECK(known.clock_hz == 0);
  known.clock_hz = 1'980'000'000;
  CHECK(m.f32 == assumed_gpu(known).f32);
}
