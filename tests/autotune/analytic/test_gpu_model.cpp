// Tests each term of the GPU's analytic model on devices and tiles whose results are known.
#include <kiln/autotune/analytic/gpu_model.h>

#include <catch2/catch.hpp>

using namespace kiln::tune;
using kiln::DType;

namespace {

// A device with ten multiprocessors and round rates.
Machine made_up() {
  Machine m;
  m.threads = 10;
  m.launch = 0, m.program = 0;
  m.memory = 1e12, m.last_cache = 4e12, m.private_cache = 5e12;
  m.f32 = m.elementwise = 1e13, m.bf16 = 1e14;
  m.registers = 65536, m.shared_bytes = 100 << 10, m.warps = 64;
  return m;
}

// Programs of 4 warps, each with one tile of 64 x 64 of a product with depth 1024.
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
  t.registers = 104;                    // 128 with the fixed ones: 65536 / (128 * 32 * 4)
  CHECK(resident_programs(t, m) == 4);
  t.scratch_bytes = 40 << 10;
  CHECK(resident_programs(t, m) == 2);
  t.scratch_bytes = 50 << 10; // the system reserves a part per program
  CHECK(resident_programs(t, m) == 1);
  t.scratch_bytes = 1 << 20; // more than there is, which is rejected elsewhere
  CHECK(resident_programs(t, m) == 1);
  t = {};
  t.warps = 1;
  CHECK(resident_programs(t, m) == 32);
}

TEST_CASE("the share of the busiest multiprocessor is rounded up") {
  CHECK(tail_waste(10, 10) == 1);
  CHECK(tail_waste(11, 10) == Approx(20.0 / 11));
  CHECK(tail_waste(1000, 10) == 1);
  CHECK(tail_waste(1001, 10) == Approx(1010.0 / 1001));
  CHECK(tail_waste(1, 10) == 10); // nine are idle
}

TEST_CASE("factors of dots are stored once and read by a row or a column of warps") {
  Terms t = tiles(1);
  t.warps = 1;
  // 1024 / 32 steps of 8 KiB, written and read.
  CHECK(shared_traffic(t) == 32 * 8192 * 2);
  t.warps = 4; // two by two
  CHECK(shared_traffic(t) == 32 * 8192 * 3);
  t.dot_flops = 0;
  CHECK(shared_traffic(t) == 0);
}

TEST_CASE("loads and arithmetic add up for a single iteration and overlap with more in flight") {
  CHECK(overlapped({3, 1, 2}, 1) == 6);
  CHECK(overlapped({3, 1, 2}, 3) == 4);
  CHECK(overlapped({3, 1, 2}, 1e9) == Approx(3));
  Terms t = tiles(10); // one per multiprocessor, so nothing is hidden
  t.unique = t.read = 1e7;
  const Estimate e = estimate_gpu(t, made_up());
  CHECK(e.seconds == Approx(e.compute + e.memory + e.cache + e.shared));
}

TEST_CASE("a grid of one program per multiprocessor wastes nothing, even if more would fit") {
  const Estimate e = estimate_gpu(tiles(10), made_up());
  CHECK(e.waste == 1);
  CHECK(estimate_gpu(tiles(11), made_up()).waste == Approx(20.0 / 11));
}

TEST_CASE("small tiles of fast dots are limited by shared memory, wide ones by arithmetic") {
  Terms t = tiles(1000);
  // The eight programs that fit have enough warps to hide latency.
  const Estimate small = estimate_gpu(t, made_up());
  CHECK(small.compute == Approx(t.dot_flops / 1e14));
  CHECK(small.shared == Approx(shared_traffic(t) / 5e12));
  CHECK(estimate(t, made_up(), kiln::DeviceKind::Cuda).limit == std::string("shared memory"));
  t.rows = t.columns = 256;
  CHECK(estimate(t, made_up(), kiln::DeviceKind::Cuda).limit == std::string("arithmetic"));
}
