// Derives a device's rates from its attributes.
#include <kiln/autotune/analytic/assumed.h>

#include <kiln/autotune/analytic/multiprocessor.h>

#include <algorithm>

namespace kiln::tune {

namespace {

double or_else(std::int64_t value, double otherwise) {
  return value > 0 ? static_cast<double>(value) : otherwise;
}

// Returns bytes per second, at two transfers per clock.
double memory_rate(const DeviceProperties& gpu, const Multiprocessor& each) {
  if (gpu.memory_clock_hz > 0 && gpu.memory_bus_bits > 0)
    return 2.0 * static_cast<double>(gpu.memory_clock_hz) * gpu.memory_bus_bits / 8;
  return std::max(1, gpu.multiprocessors) * each.memory;
}

} // namespace

Machine gpu_limits(const DeviceProperties& gpu) {
  constexpr double shared_bytes = 128, l2_bytes = 64; // bytes per clock of a multiprocessor
  const Multiprocessor& each = multiprocessor_of(gpu.sm);
  Machine m;
  m.threads = std::max(1, gpu.multiprocessors);
  const double sms = m.threads, clocks = sms * or_else(gpu.clock_hz, each.clock);
  m.f32 = clocks * each.f32, m.f64 = clocks * each.f64;
  m.bf16 = clocks * each.tensor16, m.i8 = clocks * each.tensor8;
  m.elementwise = m.f32 / 2; // a product and a sum are two instructions
  m.memory = memory_rate(gpu, each);
  m.last_cache = clocks * l2_bytes, m.private_cache = clocks * shared_bytes;
  m.warps = or_else(gpu.multiprocessor_threads, 2048) / 32;
  m.registers = or_else(gpu.multiprocessor_registers, 65536);
  m.shared_bytes = or_else(gpu.multiprocessor_shared_bytes, static_cast<double>(gpu.shared_bytes));
  m.last_cache_bytes = or_else(gpu.l2_bytes, 40 << 20);
  m.private_cache_bytes = sms * m.shared_bytes;
  m.launch = 3e-6, m.program = 1e-6;
  return m;
}

Machine assumed_gpu(const DeviceProperties& gpu) {
  // Plausible fractions of memory bandwidth and of L2 bandwidth; A100 and H100 get about 4 and 7 TB/s of L2.
  constexpr double memory_share = 0.92, l2_share = 0.4;
  Machine m = gpu_limits(gpu);
  m.memory *= memory_share, m.last_cache *= l2_share;
  const double warp_share = multiprocessor_of(gpu.sm).warp_share;
  m.bf16 *= warp_share, m.i8 *= warp_share;
  return m;
}

Machine assumed_cpu(const DeviceProperties& cpu) {
  Machine m;
  m.threads = std::max(1, cpu.num_threads);
  const double threads = m.threads, wide = cpu.isa.find("avx512") != std::string::npos ? 64 : 32;
  m.f32 = threads * 3e9 * wide; // two fused multiply-adds per cycle at 3 GHz
  m.f64 = m.f32 / 2, m.bf16 = m.f32, m.i8 = 2 * m.f32;
  m.elementwise = m.f32 / 2;
  m.private_cache = threads * 1e11, m.last_cache = threads * 4e10;
  m.l1_bytes = threads * static_cast<double>(cpu.l1d_bytes ? cpu.l1d_bytes : 32 << 10);
  m.private_cache_bytes = threads * static_cast<double>(cpu.l2_bytes ? cpu.l2_bytes : 1 << 20);
  m.last_cache_bytes = static_cast<double>(cpu.l3_bytes ? cpu.l3_bytes : 16 << 20);
  return m;
}

Machine assumed_machine(Device device) {
  const DeviceProperties& p = device.properties();
  return device.is_cpu() ? assumed_cpu(p) : assumed_gpu(p);
}

} // namespace kiln::tune
