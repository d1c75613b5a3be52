// Implements the analytic model of CPUs and the lower bound of all devices.
#include <kiln/autotune/analytic/roofline.h>

#include <kiln/autotune/analytic/gpu_model.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

// How much faster the L1 is than the L2: two cache lines per cycle compared with half a line to one line.
constexpr double l1_gain = 2.5;
// Seconds for each value that a reduction produces: the steps across the lanes of a vector, and what waits
// for them. This is the slope of softmax's time over the number of parts of its rows.
constexpr double reduction_seconds = 10e-9;

// Returns the bytes per second at which a working set of `bytes` is read repeatedly.
double rate_of(double bytes, const Machine& m) {
  if (bytes <= m.l1_bytes) return l1_gain * m.private_cache;
  if (bytes <= m.private_cache_bytes) return m.private_cache;
  return bytes <= m.last_cache_bytes ? m.last_cache : m.memory;
}

Estimate on_cpu(const Terms& t, const Machine& m) {
  Estimate e;
  const double threads = std::max(1, m.threads);
  const double used = std::max(1.0, std::min(threads, t.shared_programs));
  e.waste = t.busiest * threads / std::max(1.0, t.shared_programs);
  e.waste = std::max(1.0, e.waste);
  const double other = t.flops - t.dot_flops;
  // The packing of a group is amortised over its rows and columns (see choose_group).
  double packing = 1;
  if (t.dot_flops > 0 && t.rows > 0) packing = 1 + 14 / t.rows + 2 / std::max(1.0, t.columns);
  // Loops end at the end of views.
  const double useful = t.useful_flops > 0 ? t.useful_flops / t.flops : 1;
  e.compute = ((t.dot_flops / m.dot_rate(t.dot_type) * packing + other / m.elementwise) * useful +
               t.reductions * reduction_seconds / threads) *
              e.waste;
  // The first access to each byte comes from the level that holds all unique bytes, the other accesses from
  // the level that holds a program's own bytes.
  const double again = std::max(0.0, t.read + t.written - t.unique);
  e.memory = t.unique / rate_of(t.unique, m) * (used < threads ? threads / used * 0.6 : 1);
  e.cache = t.dot_flops > 0 ? 0 : again / rate_of(t.program_bytes * used, m) * e.waste;
  if (t.scratch_bytes > 0 && t.dot_flops == 0)
    e.cache +=
        2 * t.scratch_bytes * t.programs / rate_of((t.scratch_bytes + t.program_bytes) * used, m) * e.waste;
  e.programs = t.programs / threads * m.program * e.waste;
  e.launch = m.launch;
  const double overlapped = std::max({e.compute, e.memory, e.cache});
  const double rest = e.compute + e.memory + e.cache - overlapped;
  e.seconds = overlapped + 0.3 * rest + e.programs + e.launch;
  return e;
}

} // namespace

Estimate estimate(const Terms& t, const Machine& m, DeviceKind kind) {
  Estimate e = kind == DeviceKind::Cpu ? on_cpu(t, m) : estimate_gpu(t, m);
  // Padding of tiles is not work that every config must do.
  const double share = t.flops > 0 ? t.useful_flops / t.flops : 0;
  const double arithmetic =
      (t.dot_flops / m.dot_rate(t.dot_type) + (t.flops - t.dot_flops) / m.elementwise) * share;
  e.bound = std::max(arithmetic, t.unique / rate_of(t.unique, m));
  const double longest = std::max({e.compute, e.memory, e.cache, e.shared, e.programs});
  e.limit = longest == e.compute  ? "arithmetic"
            : longest == e.memory ? "memory"
            : longest == e.cache  ? "cache"
            : longest == e.shared ? "shared memory"
                                  : "programs";
  return e;
}

} // namespace kiln::tune
