// Each term of the GPU's analytic model, on devices and tiles whose answers are known by hand.
#include <kiln/autotune/analytic/gpu_model.h>

#include <catch2/catch.hpp>

using namespace kiln::tune;
using kiln::DType;

namespace {

// Ten multiprocessors; round rates.
Machine made_up() {
  Machine m;
  m.threads = 10;
  m.launch = 0, m.program = 0;
  m.memory = 1e12, m.last_cache = 4e12, m.private_cache = 5e12;
  m.f32 = m.elementwise = 1e13, m.bf16 = 1e14;
  m.registers = 65536, m.shared_bytes = 100 << 10, m.warps = 64;
  return m;
}

// One tile of 64 x 64 for each program of 4 warps, and a product 1024 deep.
Terms tiles(double programs) {
  Terms t;
  t.programs = programs;
  t.warps = 4;
  t.registers = 40;
  t.dot_type = DType::BF16;
  t.rows = t.columns = 64, t.depth = 32;
  t.flops = t.dot_flops = programs * 2 * 64 * 64 * 1024;
  t.scratch_bytes = (64 + 64) * 32 * 2;
  return t;
}

} // namespace

TEST_CASE("a multiprocessor has room for as many programs as its scarcest resource allows") {
  const Machine m = made_up();
  Terms t;
  t.warps = 4;
  CHECK(resident_programs(t, m) == 16); // 64 warps
  t.registers = 104;                    // 128 with a program's own: 65536 / (128 * 32 * 4)
  CHECK(resident_programs(t, m) == 4);
  t.scratch_bytes = 40 << 10;
  CHECK(resident_programs(t, m) == 2);
  t.scratch_bytes = 50 << 10; // the system takes a part for each
  CHECK(resident_programs(t, m) == 1);
  t.scratch_bytes = 1 << 20; // more than there is: it is refused elsewhere
  CHECK(resident_programs(t, m) == 1);
  t = {};
  t.warps = 1;
  CHECK(resident_programs(t, m) == 32);
}

TEST_CASE("the busiest multiprocessor's share is rounded up") {
  CHECK(tail_waste(10, 10) == 1);
  CHECK(tail_waste(11, 10) == Approx(20.0 / 11));
  CHECK(tail_waste(1000, 10) == 1);
  CHECK(tail_waste(1001, 10) == Approx(1010.0 / 1001));
  CHECK(tail_waste(1, 10) == 10); // nine have nothing
}

TEST_CASE("factors of dots are stored once and read by a row or a column of warps") {
  Terms t = tiles(1);
  t.warps = 1;
  // 1024 / 32 steps of 8 KiB, in and out.
  CHECK(shared_traffic(t) == 32 * 8192 * 2);
  t.warps = 4; // two by two
  CHECK(shared_traffic(t) == 32 * 8192 * 3);
  t.dot_flops = 0;
  CHECK(shared_traffic(t) == 0);
}

TEST_CASE("loads and arithmetic add up in one iteration at a time, and overlap with more under way") {
  CHECK(overlapped({3, 1, 2}, 1) == 6);
  CHECK(overlapped({3, 1, 2}, 3) == 4);
  CHECK(overlapped({3, 1, 2}, 1e9) == Approx(3));
  Terms t = tiles(10); // one on each: nobody else hides anything
  t.unique = t.read = 1e7;
  const Estimate e = estimate_gpu(t, made_up());
  CHECK(e.seconds == Approx(e.compute + e.memory + e.cache + e.shared));
}

TEST_CASE("a grid of one program for each multiprocessor wastes nothing, however many have room") {
  const Estimate e = estimate_gpu(tiles(10), made_up());
  CHECK(e.waste == 1);
  CHECK(estimate_gpu(tiles(11), made_up()).waste == Approx(20.0 / 11));
}

TEST_CASE("small tiles of fast dots are limited by shared memory, wide ones by arithmetic") {
  Terms t = tiles(1000);
  // The eight that fit have warps enough to hide latency.
  const Estimate small = estimate_gpu(t, made_up());
  CHECK(small.compute == Approx(t.dot_flops / 1e14));
  CHECK(small.shared == Approx(shared_traffic(t) / 5e12));
  CHECK(estimate(t, made_up(), kiln::DeviceKind::Cuda).limit == std::string("shared memory"));
  t.rows = t.columns = 256;
  CHECK(estimate(t, made_up(), kiln::DeviceKind::Cuda).limit == std::string("arithmetic"));
}
