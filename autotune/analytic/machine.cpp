// Decides whether a machine's rates are read from a file, measured or assumed.
#include <kiln/autotune/analytic/machine.h>

#include <kiln/autotune/analytic/machine_file.h>
#include <kiln/autotune/analytic/measured.h>
#include <kiln/autotune/analytic/timed.h>

namespace kiln::tune {

double Machine::dot_rate(DType factors) const {
  switch (factors) {
  case DType::F64: return f64;
  case DType::BF16:
  case DType::F16: return bf16;
  case DType::I8:
  case DType::U8: return i8;
  default: return f32;
  }
}

Machine machine_of(Device device, const std::filesystem::path& folder, bool may_measure, const Stop& stop) {
  if (device.is_emulated()) return assumed_machine(device);
  if (const auto kept = kept_machine(device, folder)) return *kept;
  if (!may_measure) return assumed_machine(device);
  try {
    const Machine m = device.is_cpu() ? measure_cpu(device, stop) : measure_gpu(device, stop);
    if (m.measured) keep_machine(m, device, folder);
    return m;
  } catch (const Stopped&) {
    return assumed_machine(device);
  }
}

} // namespace kiln::tune
