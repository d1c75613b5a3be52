// Functions that the samples share: sizes from the command line, random data, timing, and the line of
// results.
#pragma once

#include <kiln/kiln.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace samples {

// The number at `index` on the command line, or `otherwise` if there are fewer arguments.
inline std::int64_t number(int argc, char** argv, int index, std::int64_t otherwise) {
  if (index >= argc) return otherwise;
  char* end = nullptr;
  std::int64_t n = std::strtoll(argv[index], &end, 10);
  if (*end || end == argv[index] || n < 1) {
    std::fprintf(stderr, "%s: \"%s\" is not a size; give a positive number\n", argv[0], argv[index]);
    std::exit(2);
  }
  return n;
}

// The device on which the samples run: the one that KILN_SAMPLES_DEVICE names, for example "cuda:0", or the
// CPU. Ends the program if this machine has no such device.
inline kiln::Device device() {
  static const kiln::Device device = [] {
    const char* name = std::getenv("KILN_SAMPLES_DEVICE");
    if (!name) return kiln::Device::cpu();
    try {
      kiln::Device named = kiln::Device::parse(name);
      kiln::Stream stream(named);
      return named;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "KILN_SAMPLES_DEVICE=%s: %s\n", name, e.what());
      std::exit(1);
    }
  }();
  return device;
}
inline const kiln::Config& choose(const kiln::Config& cpu, const kiln::Config& gpu) {
  return device().is_cpu() ? cpu : gpu;
}

// Copies a tensor to that device, whose memory the host can read only if it is the CPU, and back.
template <class T, int Rank> kiln::Tensor<T, Rank> on_device(kiln::Tensor<T, Rank> host) {
  return device().is_cpu() ? std::move(host) : host.to(device());
}
template <class T, int Rank> kiln::Tensor<T, Rank> on_host(const kiln::Tensor<T, Rank>& t) {
  return t.to(kiln::Device::cpu());
}

// Uniform random numbers in [-1, 1), different in each run.
template <int Rank> kiln::Tensor<float, Rank> random(const kiln::Extent (&extents)[Rank]) {
  static std::uint64_t state = std::random_device{}() | 1u;
  auto t = kiln::Tensor<float, Rank>::empty(extents);
  for (float& x : t) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  }
  return on_device(std::move(t));
}
// A tensor of NaN, so that elements that a kernel does not write are noticed.
template <int Rank> kiln::Tensor<float, Rank> poisoned(const kiln::Extent (&extents)[Rank]) {
  auto t = kiln::Tensor<float, Rank>::empty(device(), extents);
  t.fill(NAN);
  return t;
}

// Relative error of a whole result: sqrt(sum of squared differences / sum of squares). NaN stays NaN.
class Error {
public:
  void add(double actual, double expected) {
    difference_ += (actual - expected) * (actual - expected);
    size_ += expected * expected;
  }
  double relative() const { return difference_ == 0 ? 0 : std::sqrt(difference_ / size_); }

private:
  double difference_ = 0, size_ = 0;
};

// With KILN_SAMPLES_INTERPRET=1, runs the kernel in the interpreter of tile IR too, and compares both
// results.
template <class K, int Rank, class... A>
void interpret(Error& error, const K& kernel, const kiln::Config& config, kiln::Tensor<float, Rank>& out,
               A&... arguments) {
  const char* wanted = std::getenv("KILN_SAMPLES_INTERPRET");
  if (!wanted || std::string(wanted) != "1" || !device().is_cpu()) return;
  std::vector<float> compiled(out.begin(), out.end());
  out.fill(NAN);
  kernel.interpret(config, arguments...);
  for (std::size_t i = 0; i < compiled.size(); ++i)
    error.add(compiled[i], out.data()[i]);
}

// The median of several runs in seconds, by the clock of the CPU or of the GPU. The first two runs are not
// counted.
template <class F> double median_seconds(kiln::Stream& stream, F&& launch) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  kiln::Event before, after;
  auto begin = clock::now();
  for (int i = 0; i < 30 && (i < 5 || clock::now() - begin < std::chrono::milliseconds(500)); ++i) {
    before.record(stream);
    auto from = clock::now();
    launch();
    after.record(stream);
    stream.synchronize();
    double seconds = std::chrono::duration<double>(clock::now() - from).count();
    if (!stream.device().is_cpu()) seconds = after.elapsed_ms(before) * 1e-3;
    if (i >= 2) times.push_back(seconds);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The bytes that a kernel has to move, or the operations that it has to do.
struct Work {
  double bytes = 0;
  double flops = 0;
};

// Prints a line like "softmax of 4096 x 1000  3.1 ms  10.5 GB/s  81 % of copy  error 1e-8". The demo sets
// KILN_SAMPLES_LIMITS to the device's limits in GB/s and GFLOP/s, 0 if unknown. Returns the exit code of the
// sample.
inline int report(const std::string& what, double seconds, Work work, double error, double bound = 1e-6) {
  double rate = (work.flops > 0 ? work.flops : work.bytes) / seconds * 1e-9, copy = 0, fma = 0;
  std::string share;
  if (const char* limits = std::getenv("KILN_SAMPLES_LIMITS");
      limits && std::sscanf(limits, "%lf %lf", &copy, &fma) == 2 && (work.flops > 0 ? fma : copy) > 0) {
    char text[64];
    std::snprintf(text, sizeof text, "%4.0f %% of %s", 100 * rate / (work.flops > 0 ? fma : copy),
                  work.flops > 0 ? "FMA peak" : "copy");
    share = text;
  }
  bool right = error <= bound; // false for NaN
  std::printf("%-48s %9.3f ms %8.1f %-8s %-16s error %.1e%s\n", what.c_str(), seconds * 1e3, rate,
              work.flops > 0 ? "GFLOP/s" : "GB/s", share.c_str(), error, right ? "" : "  WRONG");
  std::fflush(stdout);
  return right ? 0 : 1;
}

} // namespace samples
