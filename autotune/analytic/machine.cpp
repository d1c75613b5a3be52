// Measures a device, and keeps what it found.
#include <kiln/autotune/analytic/machine.h>

#include <kiln/autotune/records/files.h>
#include <kiln/autotune/records/key.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/kernel.h>
#include <kiln/jit/runtime/log.h>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace kiln::tune {

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// For kernels of functions: never destroyed, since a search in the background may launch them while the
// process ends.
template <class K> const K& lasting(K kernel) { return *new K(std::move(kernel)); }

// Nobody waits for the rest.
struct Stopped {};

// A stream on which kernels are timed, until somebody has no time for that.
class Timed {
public:
  Timed(Device device, const Stop& stop) : stream_(device), stop_(stop) {}

  // The least seconds of one call, of batches that take about 5 ms each. Throws Stopped.
  template <class F> double least_seconds(F&& launch) {
    check();
    launch(stream_);
    stream_.synchronize();
    double least = 1e30;
    int calls = 1;
    for (double end = now() + 0.08; now() < end;) {
      check();
      const double begin = now();
      for (int i = 0; i < calls; ++i)
        launch(stream_);
      stream_.synchronize();
      const double seconds = (now() - begin) / calls;
      least = std::min(least, seconds);
      calls = std::clamp(static_cast<int>(5e-3 / seconds), 1, 10'000);
    }
    return least;
  }

private:
  void check() const {
    if (stop_ && stop_()) throw Stopped();
  }

  Stream stream_;
  const Stop& stop_;
};

double copy_rate(Timed& timed, std::int64_t bytes) {
  static const auto& copy = lasting(kernel("tuner's copy", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(x.tile(i).load());
  }));
  const std::int64_t n = bytes / 8;
  auto x = Tensor<float, 1>::zeros({n}), y = Tensor<float, 1>::zeros({n});
  x.fill(1), y.fill(1); // zeroed memory may be one page, many times
  const Config config{BN = std::clamp<std::int64_t>(n / 8, 1024, 8192)};
  return static_cast<double>(8 * n) /
         timed.least_seconds([&](Stream& stream) { copy.launch(stream, config, x, y); });
}

// Seconds of a launch of so many programs with next to nothing to do.
double empty_seconds(Timed& timed, std::int64_t programs) {
  static const auto& empty = lasting(kernel("tuner's empty kernel", [](View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(zeros<float>(BN));
  }));
  auto out = Tensor<float, 1>::zeros({programs * 16});
  return timed.least_seconds([&](Stream& stream) { empty.launch(stream, {BN = 16}, out); });
}

template <class T, class A> double dot_rate_of(Timed& timed) {
  static const auto& product =
      lasting(kernel("tuner's product", [](View<const T, 2> a, View<const T, 2> b, View<A, 2> c) {
        auto [m, n] = program_tile(c, BM, BN);
        auto sums = for_range(BK, a.cols(), zeros<A>(BM, BN), [&](auto k, auto sum) {
          return dot(a.tile(m, k).load(), b.tile(k, n).load(), sum);
        });
        c.tile(m, n).store(sums);
      }));
  const std::int64_t n = 512;
  auto a = Tensor<T, 2>::zeros({n, n}), b = Tensor<T, 2>::zeros({n, n});
  auto c = Tensor<A, 2>::zeros({n, n});
  const Config config{BM = 128, BN = 128, BK = 128};
  return 2.0 * static_cast<double>(n * n * n) /
         timed.least_seconds([&](Stream& stream) { product.launch(stream, config, a, b, c); });
}

double elementwise_rate(Timed& timed) {
  constexpr int steps = 32;
  static const auto& chain = lasting(kernel("tuner's chain", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    Tile<float, BN> v = x.tile(i).load();
    for (int s = 0; s < steps; ++s)
      v = v * 0.99f + 0.01f;
    out.tile(i).store(v);
  }));
  const std::int64_t n = 1 << 17;
  auto x = Tensor<float, 1>::zeros({n}), y = Tensor<float, 1>::zeros({n});
  return 2.0 * steps * static_cast<double>(n) /
         timed.least_seconds([&](Stream& stream) { chain.launch(stream, {BN = 4096}, x, y); });
}

// Throws Stopped.
Machine measure_cpu(Device device, const Stop& stop) {
  Machine m = assumed_machine(device);
  Timed timed(device, stop);
  const double one = empty_seconds(timed, 1), many = empty_seconds(timed, 4096);
  m.launch = one;
  m.program = std::max(1e-9, (many - one) / 4096 * m.threads);
  m.private_cache = copy_rate(timed, static_cast<std::int64_t>(m.private_cache_bytes / 2));
  m.last_cache =
      std::min(m.private_cache, copy_rate(timed, static_cast<std::int64_t>(m.last_cache_bytes / 2)));
  m.memory = copy_rate(timed, static_cast<std::int64_t>(std::min(4 * m.last_cache_bytes, 256e6)));
  m.last_cache = std::max(m.last_cache, m.memory);
  m.f32 = dot_rate_of<float, float>(timed);
  m.f64 = dot_rate_of<double, double>(timed);
  m.bf16 = dot_rate_of<bf16, float>(timed);
  m.i8 = dot_rate_of<std::int8_t, std::int32_t>(timed);
  m.elementwise = elementwise_rate(timed);
  m.measured = true;
  return m;
}

// Every rate by its name in the file.
template <class M, class F> void each_rate(M& m, F&& f) {
  f("threads", m.threads), f("launch", m.launch), f("program", m.program), f("memory", m.memory);
  f("last_cache", m.last_cache), f("private_cache", m.private_cache);
  f("last_cache_bytes", m.last_cache_bytes), f("private_cache_bytes", m.private_cache_bytes);
  f("f32", m.f32), f("f64", m.f64), f("bf16", m.bf16), f("i8", m.i8), f("elementwise", m.elementwise);
  f("registers", m.registers), f("shared_bytes", m.shared_bytes), f("warps", m.warps);
}

constexpr int file_version = 2;

// The beginning is for people; devices that differ in anything are told apart by the rest.
std::string file_name(const std::string& silicon) {
  return file_word(silicon.substr(0, 40)) + "-" + to_string(cache::KeyBuilder().add(silicon).key()) + ".json";
}

// The folder of all devices' files, inside of the records'; null if it is missing or refused, as records are.
std::shared_ptr<const cache::Folder> device_folder(const std::filesystem::path& folder,
                                                   cache::IfMissing if_missing) {
  if (folder.empty()) return nullptr;
  const cache::OpenFolder open = cache::open_folder(folder, if_missing);
  return open.folder ? open_subfolder(*open.folder, "dev", if_missing) : nullptr;
}

std::optional<Machine> read_machine(const cache::Folder& folder, const std::string& name, Device device) {
  constexpr std::uint64_t most_bytes = 1 << 16;
  const auto text = read_file(folder, name, 0, most_bytes);
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, false);
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (version == json.end() || *version != file_version) return std::nullopt;
  Machine m = assumed_machine(device);
  bool complete = true;
  each_rate(m, [&](const char* rate, auto& value) {
    auto at = json.find(rate);
    complete = complete && at != json.end() && at->is_number() && at->template get<double>() >= 0;
    if (complete) value = at->template get<std::remove_cvref_t<decltype(value)>>();
  });
  m.measured = true;
  return complete ? std::optional(m) : std::nullopt;
}

std::string text_of(const Machine& m) {
  nlohmann::ordered_json json{{"version", file_version}};
  each_rate(m, [&](const char* rate, auto& value) { json[rate] = value; });
  return json.dump(2) + '\n';
}

} // namespace

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

Machine assumed_machine(Device device) {
  const DeviceProperties& p = device.properties();
  Machine m;
  if (device.is_cpu()) {
    m.threads = std::max(1, p.num_threads);
    const double threads = m.threads, wide = p.isa.find("avx512") != std::string::npos ? 64 : 32;
    m.f32 = threads * 3e9 * wide; // two fused multiply-adds a cycle at 3 GHz
    m.f64 = m.f32 / 2, m.bf16 = m.f32, m.i8 = 2 * m.f32;
    m.elementwise = m.f32 / 2;
    m.private_cache = threads * 1e11, m.last_cache = threads * 4e10;
    m.first_cache_bytes = threads * static_cast<double>(p.l1d_bytes ? p.l1d_bytes : 32 << 10);
    m.private_cache_bytes = threads * static_cast<double>(p.l2_bytes ? p.l2_bytes : 1 << 20);
    m.last_cache_bytes = static_cast<double>(p.l3_bytes ? p.l3_bytes : 16 << 20);
    return m;
  }
  // A100 and H100 (SXM) by their data sheets, a multiprocessor each.
  const bool hopper = p.sm >= 90;
  m.threads = p.multiprocessors ? p.multiprocessors : hopper ? 132 : 108;
  const double sms = m.threads;
  m.launch = 3e-6, m.program = 1e-6;
  m.memory = sms * (hopper ? 2.5e10 : 1.4e10), m.last_cache = sms * (hopper ? 4.5e10 : 4e10);
  m.private_cache = sms * 1.6e11;
  m.last_cache_bytes = static_cast<double>(p.l2_bytes ? p.l2_bytes : 40 << 20);
  m.private_cache_bytes = sms * static_cast<double>(p.shared_bytes);
  m.elementwise = sms * (hopper ? 4e11 : 1.4e11);
  m.f32 = m.elementwise, m.f64 = m.elementwise / 2;
  m.bf16 = sms * (hopper ? 5e12 : 2.8e12), m.i8 = 2 * m.bf16;
  m.registers = 65536, m.warps = 64, m.shared_bytes = static_cast<double>(p.shared_bytes);
  return m;
}

Machine machine_of(Device device, const std::filesystem::path& folder, bool may_measure, const Stop& stop) {
  if (!device.is_cpu()) return assumed_machine(device);
  const std::string name = file_name(silicon_of(device.properties()));
  if (const auto known = device_folder(folder, cache::IfMissing::leave))
    if (auto machine = read_machine(*known, name, device)) return *machine;
  if (!may_measure) return assumed_machine(device);
  try {
    const Machine m = measure_cpu(device, stop);
    if (const auto kept = device_folder(folder, cache::IfMissing::create))
      publish_file(*kept, name, text_of(m)); // where that fails it is measured again
    return m;
  } catch (const Stopped&) {
    return assumed_machine(device);
  }
}

void forget_machine(Device device, const std::filesystem::path& folder) {
  if (const auto known = device_folder(folder, cache::IfMissing::leave))
    unlinkat(known->descriptor(), file_name(silicon_of(device.properties())).c_str(), 0);
}

} // namespace kiln::tune
