// Tests the lower bound of the analytic model, which counts work of every config but no padding.
#include <kiln/autotune/run/registry.h>

#include <catch2/catch.hpp>

using namespace kiln;
using namespace kiln::tune;

TEST_CASE("the bound of a config excludes padding of tiles, and arithmetic if the useful part is unknown") {
  const Machine machine = assumed_machine(Device::cpu());
  Terms terms;
  terms.flops = terms.useful_flops = 1e12;
  terms.unique = 1e6;
  const double whole = estimate(terms, machine, DeviceKind::Cpu).bound;
  CHECK(whole == Approx(1e12 / machine.elementwise));
  terms.useful_flops = 0.5e12;
  CHECK(estimate(terms, machine, DeviceKind::Cpu).bound == Approx(whole / 2));
  terms.useful_flops = 0;
  const double bytes_alone = estimate(terms, machine, DeviceKind::Cpu).bound;
  CHECK(bytes_alone > 0);
  CHECK(bytes_alone < 1e6 / machine.memory);
}

TEST_CASE("the bound of a task is the least bound of the evaluated configs") {
  const Task task = make_task(*find_tunable("matmul"), "f32", "100x100x100", Device::cpu());
  BoundSpace space = task.bound_space();
  Prior prior(task, space, assumed_machine(Device::cpu()));
  const double of_seed = prior.bound();
  CHECK(of_seed > 0);
  const std::vector<Point> points = some_points(space, 512);
  prior.best(points, 1);
  const double least = prior.bound();
  CHECK(least > 0);
  CHECK(least < of_seed); // the seed's tiles do not divide 100
  for (const Point& point : points)
    if (prior.terms(point)) REQUIRE(least <= prior.estimate(point).bound);
}
