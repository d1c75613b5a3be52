// Measures the rates of the CPU.
#include <kiln/autotune/analytic/dims.h>
#include <kiln/autotune/analytic/measured.h>

#include <kiln/autotune/analytic/assumed.h>
#include <kiln/autotune/analytic/probes.h>
#include <kiln/dsl/language.h>

#include <algorithm>

namespace kiln::tune {

namespace {

double copy_rate(Timed& timed, double most_bytes) {
  const auto bytes = static_cast<std::int64_t>(most_bytes), elements = bytes / 8;
  const auto tile = std::clamp<std::int64_t>(elements / 8, 1024, 8192);
  return 8 * static_cast<double>(elements) / copy_seconds(timed, bytes, tile);
}

template <class T, class A> double cpu_dot_rate(Timed& timed) {
  return dot_rate<T, A>(timed, {.m = 512, .n = 512, .k = 512}, {BM = 128, BN = 128, BK = 128});
}

} // namespace

Machine measure_cpu(Device device, const Stop& stop) {
  Machine m = assumed_machine(device);
  Timed timed(device, stop);
  const double one = empty_seconds(timed, 1), many = empty_seconds(timed, 4096);
  m.launch = one;
  m.program = std::max(1e-9, (many - one) / 4096 * m.threads);
  m.private_cache = copy_rate(timed, m.private_cache_bytes / 2);
  m.last_cache = std::min(m.private_cache, copy_rate(timed, m.last_cache_bytes / 2));
  m.memory = copy_rate(timed, std::min(4 * m.last_cache_bytes, 256e6));
  m.last_cache = std::max(m.last_cache, m.memory);
  m.f32 = cpu_dot_rate<float, float>(timed);
  m.f64 = cpu_dot_rate<double, double>(timed);
  m.bf16 = cpu_dot_rate<bf16, float>(timed);
  m.i8 = cpu_dot_rate<std::int8_t, std::int32_t>(timed);
  m.elementwise = elementwise_rate<32>(timed, 1 << 17, 4096);
  m.measured = true;
  return m;
}

} // namespace kiln::tune
