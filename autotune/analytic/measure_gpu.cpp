// Measures the rates of a CUDA device.
#include <kiln/autotune/analytic/dims.h>
#include <kiln/autotune/analytic/measured.h>

#include <kiln/autotune/analytic/assumed.h>
#include <kiln/autotune/analytic/gpu_model.h>
#include <kiln/autotune/analytic/probes.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/buffer.h>

#include <algorithm>
#include <initializer_list>

namespace kiln::tune {

namespace {

class GpuMeasurement {
public:
  GpuMeasurement(Device device, const Stop& stop)
      : limits_(gpu_limits(device.properties())), found_(assumed_gpu(device.properties())),
        memory_bytes_(static_cast<double>(device.properties().memory_bytes)), timed_(device, stop) {}

  Machine run() {
    launches();
    copies();
    dots<float, float>(found_.f32, limits_.f32, 2048, {{BM = 128, BN = 128, BK = 16, num_warps = 8}});
    // A few architectures have very little f64 throughput.
    dots<double, double>(found_.f64, limits_.f64, 512, {{BM = 64, BN = 64, BK = 16, num_warps = 8}});
    // One large tile per multiprocessor, or three smaller ones: the attributes do not determine which is
    // faster.
    const std::initializer_list<Config> on_tensor_cores{{BM = 128, BN = 128, BK = 64, num_warps = 8},
                                                        {BM = 128, BN = 64, BK = 32, num_warps = 4}};
    dots<bf16, float>(found_.bf16, limits_.bf16, 2048, on_tensor_cores);
    dots<std::int8_t, std::int32_t>(found_.i8, limits_.i8, 2048, on_tensor_cores);
    rate(found_.elementwise, limits_.elementwise,
         [&] { return elementwise_rate<256>(timed_, 1 << 22, 512); });
    return found_;
  }

private:
  // Calls take(measure()), unless measure() throws an error of Kiln.
  template <class F, class G> void attempt(const F& measure, const G& take) {
    try {
      take(measure());
    } catch (const Error& error) {
      log_info("a rate of " + to_string(timed_.device()) + " could not be measured: " + error.what());
    }
  }
  template <class F> void rate(double& assumed, double limit, const F& measure) {
    attempt(measure, [&](double found) {
      if (is_believable(found, assumed, limit)) assumed = found, found_.measured = true;
    });
  }
  template <class F> void seconds(double& assumed, const F& measure) {
    attempt(measure, [&](double found) {
      if (are_believable(found, assumed)) assumed = found;
    });
  }

  void launches() {
    seconds(found_.launch, [&] { return empty_seconds(timed_, 1); });
    constexpr double waves = 32;
    Terms usual;
    usual.warps = 4;
    const double programs = waves * found_.threads * resident_programs(usual, found_);
    seconds(found_.program, [&] {
      return (empty_seconds(timed_, static_cast<std::int64_t>(programs)) - found_.launch) / waves;
    });
  }

  void copies() {
    const double cache = found_.last_cache_bytes;
    rate(found_.last_cache, limits_.last_cache, [&] { return copy_rate(cache / 2); });
    const double bytes = std::min({8 * cache, 512e6, memory_bytes_ / 8});
    rate(found_.memory, limits_.memory, [&] { return copy_rate(bytes); });
    found_.last_cache = std::max(found_.last_cache, found_.memory);
  }

  // Subtracts the time of the launch, which the model adds, but at most half of the total.
  double copy_rate(double bytes) {
    const auto whole = static_cast<std::int64_t>(bytes) / 8 * 8;
    const double seconds = copy_seconds(timed_, whole, 1024);
    return static_cast<double>(whole) / std::max(seconds - found_.launch, seconds / 2);
  }

  // Uses the best of the configs, on four tiles of 128 x 128 per multiprocessor, which is a multiple of what
  // runs at once.
  template <class T, class A>
  void dots(double& assumed, double limit, std::int64_t k, std::initializer_list<Config> configs) {
    const std::int64_t columns = (found_.threads + 3) / 4;
    double best = 0;
    for (const Config& config : configs)
      attempt([&] { return dot_rate<T, A>(timed_, {.m = 16 * 128, .n = columns * 128, .k = k}, config); },
              [&](double found) { best = std::max(best, found); });
    rate(assumed, limit, [&] { return best; });
  }

  Machine limits_, found_;
  double memory_bytes_;
  Timed timed_;
};

} // namespace

bool is_believable(double rate, double assumed, double limit) {
  return rate >= 0.3 * assumed && rate <= 1.05 * limit;
}

bool are_believable(double seconds, double assumed) {
  return seconds >= assumed / 10 && seconds <= assumed * 10;
}

Machine measure_gpu(Device device, const Stop& stop) {
  const struct Trim {
    ~Trim() { Buffer::trim(); } // measuring processes need the memory
  } at_the_end;
  try {
    return GpuMeasurement(device, stop).run();
  } catch (const Error& error) {
    log_info(to_string(device) + " could not be measured: " + error.what());
    return assumed_machine(device);
  }
}

} // namespace kiln::tune
