// Implements the analytic model of GPUs.
#include <kiln/autotune/analytic/gpu_model.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

double resident_programs(const Terms& t, const Machine& m) {
  constexpr double most = 32, own_registers = 24, most_registers = 255, lanes = 32;
  constexpr double reserved_bytes = 1024; // shared memory that the system reserves per block
  const double warps = std::max(1.0, t.warps);
  const double registers = std::min(most_registers, own_registers + t.registers) * lanes * warps;
  double resident = std::min({most, std::floor(m.warps / warps), std::floor(m.registers / registers)});
  if (t.scratch_bytes > 0)
    resident = std::min(resident, std::floor(m.shared_bytes / (t.scratch_bytes + reserved_bytes)));
  return std::max(1.0, resident);
}

double tail_waste(double programs, double multiprocessors) {
  programs = std::max(1.0, programs);
  return std::ceil(programs / multiprocessors) * multiprocessors / programs;
}

double shared_traffic(const Terms& t) {
  if (t.dot_flops <= 0 || t.rows <= 0 || t.columns <= 0) return 0;
  const double products = t.dot_flops / (2 * t.rows * t.columns); // times the depth
  const double stored = products * (t.rows + t.columns) * static_cast<double>(size_of(t.dot_type));
  return stored * (1 + std::sqrt(std::max(1.0, t.warps)));
}

double overlapped(std::initializer_list<double> parts, double in_flight) {
  const double longest = std::max(parts);
  double all = 0;
  for (const double part : parts)
    all += part;
  return longest + (all - longest) / std::max(1.0, in_flight);
}

Estimate estimate_gpu(const Terms& t, const Machine& m) {
  Estimate e;
  const double multiprocessors = std::max(1, m.threads);
  const double room = resident_programs(t, m);
  const double resident = std::min(room, std::ceil(std::max(1.0, t.programs) / multiprocessors));
  e.waste = tail_waste(t.programs, multiprocessors);
  // With fewer warps than this, the latency of arithmetic and memory is not hidden.
  constexpr double enough_warps = 16;
  const double occupancy = std::min(1.0, resident * std::max(1.0, t.warps) / enough_warps);
  const double spill = t.registers > 230 ? 1 + (t.registers - 230) / 100 : 1;
  const double arithmetic = t.dot_flops / m.dot_rate(t.dot_type) + (t.flops - t.dot_flops) / m.elementwise;
  e.compute = arithmetic * e.waste * spill / (0.5 + 0.5 * occupancy);
  e.memory = t.unique / m.memory / (0.4 + 0.6 * occupancy);
  e.cache = (t.read + t.written) / m.last_cache;
  e.shared = shared_traffic(t) / m.private_cache * e.waste;
  e.programs = std::ceil(t.programs / (multiprocessors * room)) * m.program;
  e.launch = m.launch;
  e.seconds = overlapped({e.compute, e.memory, e.cache, e.shared}, resident) + e.programs + e.launch;
  return e;
}

} // namespace kiln::tune
