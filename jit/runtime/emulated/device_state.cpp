// Manages the emulated devices of the process, their names, and their memory.
#include <kiln/jit/runtime/emulated/device_state.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/cuda/cubin.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

namespace kiln::emulated {

namespace {

// Persistent kernels launch one block per multiprocessor, and few blocks are emulated faster than many.
constexpr int multiprocessors = 4;
// Shared memory that the system reserves for each block on a multiprocessor.
constexpr std::int64_t block_reserve = 1024;

struct Devices {
  std::mutex mutex;
  std::deque<std::unique_ptr<DeviceState>> list;
};
Devices& devices() {
  static auto* d = new Devices; // never destroyed, because streams may work while the process exits
  return *d;
}
std::atomic<bool> any{false};

// The owners of memory, by address. Their lock is not a device's lock, which running kernels hold.
struct Owners {
  struct Owner {
    std::uint64_t bytes;
    int device;
  };
  std::mutex mutex;
  std::map<std::uintptr_t, Owner> by_address;
};
Owners& owners() {
  static auto* o = new Owners;
  return *o;
}

// The name that both the emulator and the code generator use: sm_90 executes code for sm_90a.
std::string canonical(const std::string& arch) {
  const std::string known = arch == "sm_90" || arch == "sm_100" ? arch + "a" : arch;
  cuda::architecture_named(known); // UserError for an unknown architecture
  return known;
}

int number_of(const std::string& arch) { return std::atoi(arch.c_str() + 3); }

emulator::Options emulator_options(const std::string& arch, const EmulatorOptions& options) {
  emulator::Options o;
  o.arch = arch;
  o.seed = options.seed;
  o.checks = emulator::Checks::parse(options.checks);
  o.threads = options.threads;
  o.resident_blocks = options.resident;
  o.instruction_budget = options.instruction_budget;
  return o;
}

// From the table of technical specifications in the CUDA programming guide.
int multiprocessor_threads(int sm) {
  switch (sm) {
  case 86:
  case 87:
  case 89:
  case 120:
  case 121: return 1536;
  default: return 2048;
  }
}

DeviceProperties describe(const std::string& arch) {
  DeviceProperties p;
  p.name = "emulated " + arch;
  p.isa = arch;
  p.sm = number_of(arch);
  p.multiprocessors = multiprocessors;
  p.shared_bytes = static_cast<std::int64_t>(emulator::shared_bytes_of(arch));
  p.multiprocessor_threads = multiprocessor_threads(p.sm);
  p.multiprocessor_registers = 65536;
  p.multiprocessor_shared_bytes = p.shared_bytes + block_reserve;
  p.memory_bytes = Device::cpu().properties().memory_bytes;
  return p;
}

std::uint64_t parse_number(std::string_view text, const std::string& what) {
  std::uint64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size())
    throw UserError(what + " is \"" + std::string(text) + "\"; give a number from 0 on");
  return n;
}

int parse_count(std::string_view text, const std::string& what, std::uint64_t most, std::uint64_t least = 1) {
  std::uint64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < least || n > most)
    throw UserError(what + " is " + std::string(text) + "; give a number from " + std::to_string(least) +
                    " to " + std::to_string(most));
  return static_cast<int>(n);
}

constexpr std::uint64_t most_threads = 4096, most_resident = 65536, most_ordinal = 65535;

} // namespace

int DeviceState::index_of(const std::string& name, const EmulatorOptions& options) {
  const std::string arch = canonical(name);
  if (options.resident < 1 || options.resident > static_cast<int>(most_resident))
    throw UserError("EmulatorOptions::resident is " + std::to_string(options.resident) +
                    "; give a number from 1 to " + std::to_string(most_resident));
  if (options.ordinal < 0 || options.ordinal > static_cast<int>(most_ordinal))
    throw UserError("EmulatorOptions::ordinal is " + std::to_string(options.ordinal) +
                    "; give a number from 0 to " + std::to_string(most_ordinal));
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  for (const auto& device : all.list)
    if (device->arch() == arch && device->options() == options) return device->index();
  const int index = static_cast<int>(all.list.size());
  all.list.push_back(std::make_unique<DeviceState>(index, arch, options));
  any.store(true, std::memory_order_release);
  return index;
}

DeviceState& DeviceState::get(int index) {
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  return *all.list.at(static_cast<std::size_t>(index));
}

DeviceState::DeviceState(int index, const std::string& arch, const EmulatorOptions& options)
    : index_(index), arch_(arch), options_(options), properties_(describe(arch)),
      gpu_(emulator_options(arch, options)) {
  if (options.counters) gpu_.attach(&counters_);
}

std::string DeviceState::name() const {
  const EmulatorOptions usual = EmulatorOptions::from_environment();
  std::string text = "emulated:" + arch_;
  if (options_.seed != usual.seed) text += ",seed=" + std::to_string(options_.seed);
  if (options_.checks != usual.checks) {
    std::string list = options_.checks;
    std::replace(list.begin(), list.end(), ',', '+');
    text += ",check=" + list;
  }
  if (options_.threads != usual.threads) text += ",threads=" + std::to_string(options_.threads);
  if (options_.resident != usual.resident) text += ",resident=" + std::to_string(options_.resident);
  if (options_.counters) text += ",counters";
  if (options_.instruction_budget != usual.instruction_budget)
    text += ",budget=" + std::to_string(options_.instruction_budget);
  if (options_.ordinal != usual.ordinal) text += ",ordinal=" + std::to_string(options_.ordinal);
  return text;
}

void* DeviceState::allocate(std::uint64_t bytes) {
  std::uint64_t address;
  try {
    // In whole words, as a driver allocates, because 8- and 16-bit atomics access the word around them.
    address = with_gpu([&](emulator::Gpu& gpu) {
      const std::uint64_t words = (bytes + 3) / 4 * 4, at = gpu.allocate(words);
      const std::uint32_t zero = 0;
      gpu.write(at + bytes, &zero, words - bytes);
      return at;
    });
  } catch (const UserError&) {
    return nullptr;
  }
  Owners& all = owners();
  std::lock_guard lock(all.mutex);
  all.by_address[address] = {bytes, index_};
  return reinterpret_cast<void*>(address);
}

void DeviceState::free(void* memory) noexcept {
  {
    Owners& all = owners();
    std::lock_guard lock(all.mutex);
    all.by_address.erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  with_gpu([&](emulator::Gpu& gpu) { gpu.free(reinterpret_cast<std::uint64_t>(memory)); });
}

bool opened() { return any.load(std::memory_order_acquire); }

int device_of_pointer(const void* pointer, std::uint64_t* room) {
  if (!opened()) return -1;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Owners& all = owners();
  std::lock_guard lock(all.mutex);
  auto after = all.by_address.upper_bound(address);
  if (after == all.by_address.begin()) return -1;
  const auto& [base, owner] = *std::prev(after);
  if (address - base >= owner.bytes) return -1;
  if (room) *room = owner.bytes - (address - base);
  return owner.device;
}

void copy(void* to, const void* from, std::uint64_t bytes) {
  const int source = device_of_pointer(from), target = device_of_pointer(to);
  const auto from_address = reinterpret_cast<std::uint64_t>(from),
             to_address = reinterpret_cast<std::uint64_t>(to);
  auto on = [](int device, const auto& f) { DeviceState::get(device).with_gpu(f); };
  if (source < 0 && target < 0) {
    std::memmove(to, from, bytes);
  } else if (source < 0) {
    on(target, [&](emulator::Gpu& gpu) { gpu.write(to_address, from, bytes); });
  } else if (target < 0) {
    on(source, [&](emulator::Gpu& gpu) { gpu.read(to, from_address, bytes); });
  } else if (source == target) {
    on(source, [&](emulator::Gpu& gpu) { gpu.copy(to_address, from_address, bytes); });
  } else {
    auto between = std::make_unique<unsigned char[]>(bytes);
    on(source, [&](emulator::Gpu& gpu) { gpu.read(between.get(), from_address, bytes); });
    on(target, [&](emulator::Gpu& gpu) { gpu.write(to_address, between.get(), bytes); });
  }
}

void fill(void* to, unsigned char value, std::uint64_t bytes) {
  const int target = device_of_pointer(to);
  if (target < 0) {
    std::memset(to, value, bytes);
    return;
  }
  unsigned char chunk[4096];
  std::memset(chunk, value, sizeof chunk);
  DeviceState::get(target).with_gpu([&](emulator::Gpu& gpu) {
    for (std::uint64_t done = 0; done < bytes; done += sizeof chunk)
      gpu.write(reinterpret_cast<std::uint64_t>(to) + done, chunk,
                std::min<std::uint64_t>(sizeof chunk, bytes - done));
  });
}

EmulatorOptions parse_options(std::string_view text, std::source_location here) {
  EmulatorOptions options = EmulatorOptions::from_environment();
  while (!text.empty()) {
    text.remove_prefix(1); // the comma
    const std::string_view item = text.substr(0, text.find(','));
    text = text.substr(item.size());
    const std::string_view key = item.substr(0, item.find('='));
    const std::string_view value = item.substr(std::min(item.size(), key.size() + 1));
    try {
      if (key == "seed")
        options.seed = parse_number(value, "seed");
      else if (key == "budget")
        options.instruction_budget = parse_number(value, "budget");
      else if (key == "threads")
        options.threads = parse_count(value, "threads", most_threads);
      else if (key == "resident")
        options.resident = parse_count(value, "resident", most_resident);
      else if (key == "ordinal")
        options.ordinal = parse_count(value, "ordinal", most_ordinal, 0);
      else if (item == "counters")
        options.counters = true;
      else if (key == "check") {
        options.checks = value;
        std::replace(options.checks.begin(), options.checks.end(), '+', ',');
      } else
        throw UserError("an emulated device has no option \"" + std::string(key) +
                        "\"; it has seed, check, threads, resident, counters, budget and ordinal");
    } catch (const UserError& e) {
      throw UserError(here, e.what());
    }
  }
  return options;
}

} // namespace kiln::emulated

namespace kiln {

EmulatorOptions EmulatorOptions::from_environment() {
  EmulatorOptions options;
  const Options environment = read_environment();
  if (!environment.emulate_check.empty()) options.checks = environment.emulate_check;
  if (!environment.emulate_seed.empty())
    options.seed = emulated::parse_number(environment.emulate_seed, "KILN_EMULATE_SEED");
  if (!environment.emulate_threads.empty())
    options.threads =
        emulated::parse_count(environment.emulate_threads, "KILN_EMULATE_THREADS", emulated::most_threads);
  return options;
}

} // namespace kiln
