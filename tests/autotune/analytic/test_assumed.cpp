// Tests a GPU's assumed rates against data sheets, and which measured rates are plausible.
#include <kiln/autotune/analytic/assumed.h>
#include <kiln/autotune/analytic/measured.h>
#include <kiln/autotune/analytic/multiprocessor.h>

#include <catch2/catch.hpp>

#include <limits>

using namespace kiln;
using namespace kiln::tune;

namespace {

// The attributes that drivers report.
DeviceProperties h100() {
  DeviceProperties p;
  p.sm = 90, p.multiprocessors = 132;
  p.clock_hz = 1'980'000'000, p.memory_clock_hz = 2'619'000'000, p.memory_bus_bits = 5120;
  p.shared_bytes = 227 << 10, p.multiprocessor_shared_bytes = 228 << 10;
  p.multiprocessor_threads = 2048, p.multiprocessor_registers = 65536;
  p.l2_bytes = 50 << 20;
  return p;
}

DeviceProperties a10() {
  DeviceProperties p;
  p.sm = 86, p.multiprocessors = 72;
  p.clock_hz = 1'695'000'000, p.memory_clock_hz = 6'251'000'000, p.memory_bus_bits = 384;
  p.shared_bytes = 99 << 10, p.multiprocessor_shared_bytes = 100 << 10;
  p.multiprocessor_threads = 1536, p.multiprocessor_registers = 65536;
  p.l2_bytes = 6 << 20;
  return p;
}

} // namespace

TEST_CASE("an unlisted architecture is treated as the newest older one") {
  CHECK(multiprocessor_of(80).sm == 80);
  CHECK(multiprocessor_of(87).sm == 86);
  CHECK(multiprocessor_of(103).sm == 100);
  CHECK(multiprocessor_of(121).sm == 120);
  CHECK(multiprocessor_of(300).sm == 120);
  CHECK(multiprocessor_of(70).sm == 75); // older than all listed
}

TEST_CASE("the rates of every listed architecture are ordered plausibly") {
  for (const int sm : {75, 80, 86, 89, 90, 100, 120}) {
    INFO("sm_" << sm);
    const Multiprocessor& each = multiprocessor_of(sm);
    CHECK(each.sm == sm);
    CHECK(each.f64 < each.f32);
    CHECK(each.f32 < each.tensor16 * each.warp_share);
    CHECK(each.tensor8 == 2 * each.tensor16);
    CHECK(each.clock > 1e9);
    CHECK(each.clock < 3e9);
    CHECK(each.memory > 5e9);
  }
}

TEST_CASE("the limits of a GPU match its data sheet") {
  const Machine h = gpu_limits(h100());
  CHECK(h.f32 == Approx(67e12).epsilon(0.01));
  CHECK(h.f64 == Approx(34e12).epsilon(0.02));
  CHECK(h.memory == Approx(3.35e12).epsilon(0.01));
  CHECK(h.bf16 == Approx(989e12 * 1980 / 1830).epsilon(0.01)); // the data sheet has it at 1830 MHz
  const Machine a = gpu_limits(a10());
  CHECK(a.f32 == Approx(31.2e12).epsilon(0.01));
  CHECK(a.bf16 == Approx(125e12).epsilon(0.01));
  CHECK(a.i8 == Approx(250e12).epsilon(0.01));
  CHECK(a.memory == Approx(600e9).epsilon(0.01));
}

TEST_CASE("assumed rates of a GPU are below its limits, and its resources match its attributes") {
  for (const DeviceProperties& p : {h100(), a10()}) {
    const Machine limits = gpu_limits(p), m = assumed_gpu(p);
    CHECK_FALSE(m.measured);
    CHECK(m.threads == p.multiprocessors);
    CHECK(m.memory < limits.memory);
    CHECK(m.last_cache < limits.last_cache);
    CHECK(m.last_cache > m.memory);
    CHECK(m.bf16 <= limits.bf16);
    CHECK(m.f32 == limits.f32);
    CHECK(m.warps == p.multiprocessor_threads / 32);
    CHECK(m.registers == 65536);
    CHECK(m.shared_bytes == static_cast<double>(p.multiprocessor_shared_bytes));
    CHECK(m.private_cache_bytes == p.multiprocessors * m.shared_bytes);
    CHECK(m.last_cache_bytes == static_cast<double>(p.l2_bytes));
  }
  CHECK(assumed_gpu(h100()).bf16 == Approx(0.62 * gpu_limits(h100()).bf16)); // with warp-level instructions
}

TEST_CASE("twice the clock doubles all rates except that of memory") {
  DeviceProperties fast = a10();
  fast.clock_hz *= 2;
  const Machine slow = assumed_gpu(a10()), m = assumed_gpu(fast);
  for (const auto rate : {&Machine::f32, &Machine::f64, &Machine::bf16, &Machine::i8, &Machine::elementwise,
                          &Machine::last_cache, &Machine::private_cache})
    CHECK(m.*rate == Approx(2 * (slow.*rate)));
  CHECK(m.memory == slow.memory);
}

TEST_CASE("missing attributes are those of the architecture's best-known board") {
  DeviceProperties p;
  p.sm = 80, p.multiprocessors = 108;
  p.shared_bytes = 163 << 10;
  const Machine limits = gpu_limits(p);
  CHECK(limits.f32 == Approx(19.5e12).epsilon(0.01));
  CHECK(limits.bf16 == Approx(312e12).epsilon(0.01));
  CHECK(limits.memory == Approx(1.555e12).epsilon(0.01));
  CHECK(limits.warps == 64);
  CHECK(limits.registers == 65536);
  CHECK(limits.shared_bytes == 163 << 10);
  CHECK(limits.last_cache_bytes == 40 << 20);
  // One of the two attributes of memory alone is not enough.
  p.memory_clock_hz = 1'215'000'000;
  CHECK(gpu_limits(p).memory == limits.memory);
  p.memory_bus_bits = 4096;
  CHECK(gpu_limits(p).memory == Approx(2 * 1.215e9 * 512));
}

TEST_CASE("a measured rate is plausible between a fraction of the assumed rate and the limit") {
  CHECK(is_believable(100, 100, 150));
  CHECK(is_believable(30, 100, 150));
  CHECK_FALSE(is_believable(29, 100, 150));
  CHECK(is_believable(157, 100, 150));
  CHECK_FALSE(is_believable(158, 100, 150));
  CHECK_FALSE(is_believable(0, 100, 150));
  CHECK_FALSE(is_believable(std::numeric_limits<double>::quiet_NaN(), 100, 150));
  CHECK_FALSE(is_believable(std::numeric_limits<double>::infinity(), 100, 150));
}

TEST_CASE("measured seconds are plausible within a factor of ten") {
  CHECK(are_believable(3e-6, 3e-6));
  CHECK(are_believable(4e-7, 3e-6));
  CHECK(are_believable(2.9e-5, 3e-6));
  CHECK_FALSE(are_believable(2e-7, 3e-6));
  CHECK_FALSE(are_believable(4e-5, 3e-6));
  CHECK_FALSE(are_believable(-3e-6, 3e-6));
  CHECK_FALSE(are_believable(std::numeric_limits<double>::quiet_NaN(), 3e-6));
}
