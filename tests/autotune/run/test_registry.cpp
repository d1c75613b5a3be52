// Tests the registry of kernels that `kiln tune` finds by name.
#include <kiln/autotune/run/registry.h>
#include <kiln/dsl/language.h>
#include <kiln/dsl/raw.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <catch2/catch.hpp>

using namespace kiln;
using Catch::Matchers::Contains;

namespace {

KILN_DIM(BN);

const auto copied = kernel("copied", [](raw::Ptr<const double> from, raw::Ptr<float> to, Scalar<int> n) {
  const auto i = program_id(0) * BN + arange(BN);
  raw::store(to + i, cast<float>(raw::load(from + i, i < n, 0.0)), i < n);
});

tune::TunableKernel copying() {
  return {.name = "copying",
          .summary = "to = from",
          .dtypes = {DType::F32},
          .record = [](DType, const tune::Problem&, const Config& config) { return copied.record(config); },
          .space = [](DType, const tune::Problem&,
                      Device) { return tune::Space().pow2(BN, 16, 64).seed({{"BN", 32}}); },
          .sizes = "N=1000",
          .parameters = "from=N,2 to=N n=N",
          .grid = [](const Config& config, const tune::Problem& problem) -> Grid {
            return {problem["N"] / *config.get("BN") + 1};
          }};
}

} // namespace

TEST_CASE("the last registered kernel of a name is found, and earlier ones keep their addresses") {
  tune::TunableKernel kernel = copying();
  kernel.name = "registered twice";
  const tune::TunableRegistration first(kernel);
  const tune::TunableKernel* before = tune::find_tunable("registered twice");
  REQUIRE(before);
  const tune::Task task = tune::make_task(*before, "", "100", Device::cpu());
  kernel.summary = "another";
  const tune::TunableRegistration second(kernel);
  const tune::TunableKernel* found = tune::find_tunable("registered twice");
  CHECK(found->summary == std::string("another"));
  std::vector<const tune::TunableKernel*> listed = tune::tunable_kernels();
  std::erase_if(listed, [](const auto* each) { return each->name != std::string("registered twice"); });
  CHECK(listed == std::vector{found});
  kernel.name = "registered often";
  for (int i = 0; i < 100; ++i)
    const tune::TunableRegistration another(kernel);
  CHECK(tune::find_tunable("registered twice") == found);
  CHECK(before->summary == std::string("to = from"));
  CHECK(task.for_problem(task.problem).pointer_bytes == task.pointer_bytes);
}

TEST_CASE("a registration gives the sizes of the memory behind pointers, and the grid for a config") {
  const tune::TunableKernel kernel = copying();
  const tune::Task task = tune::make_task(kernel, "", "100", Device::cpu());
  CHECK(task.pointer_bytes == std::vector<std::int64_t>{1600, 400});
  REQUIRE(task.grid);
  CHECK(task.grid({{"BN", 32}}).x == 4);
  // The model cannot know which part of the tiles lies inside, since the kernel computes its own offsets.
  const tune::BoundSpace space = task.bound_space();
  tune::Prior prior(task, space, tune::assumed_machine(Device::cpu()));
  REQUIRE(prior.terms(space.seeds().front()));
  CHECK(prior.terms(space.seeds().front())->useful_flops == 0);
  tune::TunableKernel sizeless = copying();
  sizeless.parameters = "from=N,2 to n=N";
  CHECK_THROWS_WITH(tune::make_task(sizeless, "", "100", Device::cpu()),
                    Contains("copying") && Contains("behind the pointer to;") && Contains("to=M,N"));
}
