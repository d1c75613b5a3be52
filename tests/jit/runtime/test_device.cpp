// Tests devices, the limits of their threads, and the caching allocator of memory.
#include "test_seed.h"
#include <catch2/catch.hpp>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/cpu/scratch.h>
#include <kiln/jit/runtime/device.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <unistd.h>
#include <unordered_set>

using namespace kiln;
namespace fs = std::filesystem;

TEST_CASE("a device is a value") {
  CHECK(Device() == Device::cpu());
  CHECK(Device::cpu().kind() == DeviceKind::Cpu);
  CHECK(to_string(Device::cpu()) == "cpu");
  std::unordered_set<Device> set{Device::cpu(), Device()};
  CHECK(set.size() == 1);
}

TEST_CASE("the name of a device can be parsed") {
  CHECK(Device::parse("cpu") == Device::cpu());
  for (const char* wrong : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:1x", "cuda: 1", "cpu:0"}) {
    INFO(wrong);
    int line = __LINE__ + 2;
    try {
      Device::parse(wrong);
      FAIL("it is taken");
    } catch (const UserError& e) {
      CHECK(e.what() == std::string(__FILE__) + ":" + std::to_string(line) + ": \"" + wrong +
                            "\" is no device; use \"cpu\", \"cuda:0\" or \"emulated:sm_80\"");
    }
  }
}

TEST_CASE("the CPU has properties") {
  const auto& p = Device::cpu().properties();
  CHECK_FALSE(p.name.empty());
  CHECK_FALSE(p.cpu.empty());
  CHECK(p.num_threads >= 1);
  CHECK(p.memory_bytes > (1 << 20));
  CHECK(&p == &Device::cpu().properties());
  CHECK(Device::cpu().limits().max_programs == std::int64_t{1} << 62);
  CHECK(Device::cpu().limits().max_scratch_bytes > 0);
}

TEST_CASE("only a part of a large L3 cache is expected to be reused") {
  using cpu::tuning::reused_bytes;
  constexpr std::int64_t mib = 1 << 20;
  CHECK(reused_bytes(0) == 64 * mib); // unknown
  CHECK(reused_bytes(4 * mib) == 8 * mib);
  CHECK(reused_bytes(32 * mib) == 32 * mib);
  CHECK(reused_bytes(96 * mib) == 96 * mib);
  CHECK(reused_bytes(480 * mib) == 32 * mib);
}

TEST_CASE("there is one emulated device for each architecture and set of options") {
  const Device plain = Device::emulated("sm_80"), seeded = Device::emulated("sm_80", {.seed = 12});
  CHECK(plain == Device::emulated("sm_80"));
  CHECK(plain != Device::emulated("sm_90a"));
  CHECK(plain != seeded);
  CHECK(seeded == Device::emulated("sm_80", {.seed = 12}));
  CHECK(Device::emulated("sm_90") == Device::emulated("sm_90a"));
  const Device second = Device::emulated("sm_80", {.ordinal = 1});
  CHECK(second != plain);
  CHECK(second == Device::parse("emulated:sm_80,ordinal=1"));
  CHECK(plain == Device::parse("emulated:sm_80,ordinal=0"));
  CHECK(to_string(second).ends_with(",ordinal=1"));
  CHECK(second.properties().name == plain.properties().name);
  for (Device d : {plain, seeded, second, Device::emulated("sm_90a", {.checks = "bounds"}),
                   Device::emulated("sm_100a", {.threads = 2, .counters = true, .instruction_budget = 5})})
    CHECK(Device::parse(to_string(d)) == d);
  CHECK(to_string(seeded).starts_with("emulated:sm_80"));
  CHECK(seeded.properties().sm == 80);
  CHECK(seeded.properties().shared_bytes == 163 << 10);
  CHECK(seeded.properties().multiprocessor_shared_bytes == 164 << 10);
  CHECK(seeded.properties().multiprocessor_threads == 2048);
  CHECK(Device::emulated("sm_89").properties().multiprocessor_threads == 1536);
  CHECK(seeded.properties().multiprocessor_registers == 65536);
  CHECK(seeded.properties().clock_hz == 0);
  CHECK(seeded.limits().max_programs == 0x7fffffff);
}

TEST_CASE("a device that cannot be emulated is a user error at the caller's line") {
  auto error = [](const char* name, int line) {
    try {
      Device::parse(name);
    } catch (const UserError& e) {
      std::string here = std::string(__FILE__) + ":" + std::to_string(line) + ": ", text = e.what();
      return text.starts_with(here) ? text.substr(here.size()) : text;
    }
    return std::string("no error");
  };
  const int line = __LINE__ - 7;
  CHECK(
      error("emulated:sm_75", line) ==
      "Device::emulated(\"sm_75\"): kernels run on NVIDIA GPUs of compute capability 8.0 or newer, and this "
      "one has 7.5; use Device::cpu()");
  CHECK(error("emulated:", line) ==
        "Device::emulated(\"\"): \"\" is no GPU architecture; write sm_80, sm_90a or sm_100a");
  CHECK_THAT(error("emulated:sm_80,check=rcaes", line), Catch::Contains("the check 'rcaes' is not known; "));
  CHECK(error("emulated:sm_80,sed=1", line) == "an emulated device has no option \"sed\"; it has seed, "
                                               "check, threads, resident, counters, budget and ordinal");
  CHECK(error("emulated:sm_80,seed=x", line) == "seed is \"x\"; give a number from 0 on");
  CHECK(error("emulated:sm_80,ordinal=-1", line) == "ordinal is -1; give a number from 0 to 65535");
  CHECK(error("emulated:sm_80,ordinal=65536", line) == "ordinal is 65536; give a number from 0 to 65535");
  CHECK_THROWS_WITH(Device::emulated("sm_80", {.ordinal = -1}),
                    Catch::Contains("EmulatorOptions::ordinal is -1; give a number from 0 to 65535"));
}

TEST_CASE("the lowest cgroup quota of a group and its parents applies") {
  fs::path root = fs::temp_directory_path() / ("kiln-cgroup-" + std::to_string(getpid()));
  fs::create_directories(root / "a/b");
  fs::create_directories(root / "cpu/v1");
  auto write = [](const fs::path& file, const char* text) { std::ofstream(file) << text; };
  write(root / "self", "0::/a/b\n");
  CHECK(cgroup_cpu_limit(root, root / "self") == 0);
  write(root / "a/b/cpu.max", "max 100000\n");
  CHECK(cgroup_cpu_limit(root, root / "self") == 0);
  write(root / "a/cpu.max", "250000 100000\n");
  CHECK(cgroup_cpu_limit(root, root / "self") == 2.5);
  write(root / "a/b/cpu.max", "50000 100000\n");
  CHECK(cgroup_cpu_limit(root, root / "self") == 0.5);
  write(root / "self", "5:cpu,cpuacct:/v1\n");
  write(root / "cpu/v1/cpu.cfs_quota_us", "-1\n");
  write(root / "cpu/v1/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_limit(root, root / "self") == 0);
  write(root / "cpu/v1/cpu.cfs_quota_us", "300000\n");
  CHECK(cgroup_cpu_limit(root, root / "self") == 3);
  fs::remove_all(root);
}

TEST_CASE("KILN_NUM_THREADS sets the number of threads") {
  Options o;
  o.num_threads = 5;
  ScopedOptions scope(o);
  CHECK(thread_budget().threads == 5);
  CHECK_FALSE(thread_budget().limited_by_quota);
}

TEST_CASE("buffers are aligned, and every byte can be used") {
  auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    std::int64_t bytes = std::int64_t(1) << (random() % 23);
    bytes += static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bytes));
    Buffer b(Device::cpu(), bytes);
    REQUIRE(b.size() == bytes);
    REQUIRE(reinterpret_cast<std::uintptr_t>(b.data()) % (bytes >= (1 << 20) ? (2 << 20) : 64) == 0);
    std::memset(b.data(), 0x5a, static_cast<std::size_t>(bytes));
  }
}

TEST_CASE("a freed block is reused, and trim returns it to the system") {
  Buffer::trim();
  CHECK(Buffer::cached_bytes() == 0);
  void* first;
  {
    Buffer b(Device::cpu(), 5 << 20);
    first = b.data();
  }
  CHECK(Buffer::cached_bytes() >= 5 << 20);
  {
    Buffer b(Device::cpu(), (5 << 20) + 17);
    CHECK(b.data() == first);
    CHECK(Buffer::cached_bytes() == 0);
  }
  Buffer::trim();
  CHECK(Buffer::cached_bytes() == 0);
}

TEST_CASE("a buffer that was moved from is empty") {
  Buffer a(Device::cpu(), 100);
  void* data = a.data();
  Buffer b = std::move(a);
  CHECK(a.data() == nullptr);
  CHECK(a.size() == 0);
  CHECK(b.data() == data);
  b = Buffer();
  CHECK(b.data() == nullptr);
}

TEST_CASE("a size that exceeds the memory is a user error that names it") {
  auto bytes = GENERATE(std::int64_t{1} << 50, (std::int64_t{1} << 62) + 1, INT64_MAX);
  CHECK_THROWS_WITH(Buffer(Device::cpu(), bytes),
                    Catch::Contains("no memory for a Buffer of " + std::to_string(bytes) + " bytes on cpu"));
  CHECK_THROWS_WITH(Buffer(Device::cpu(), -4),
                    Catch::Contains("Buffer of -4 bytes; the size must not be negative"));
  CHECK(Buffer(Device::cpu(), 0).data() == nullptr);
}

TEST_CASE("buffers of several threads never overlap") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  auto work = [seed](int id, bool* intact) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(id));
    for (int i = 0; i < 500; ++i) {
      Buffer b(Device::cpu(), 1 + static_cast<std::int64_t>(random() % 5000));
      std::memset(b.data(), id, static_cast<std::size_t>(b.size()));
      for (std::int64_t j = 0; j < b.size(); ++j)
        if (static_cast<char*>(b.data())[j] != id) *intact = false;
    }
  };
  bool intact[4] = {true, true, true, true};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back(work, i + 1, &intact[i]);
  }
  for (bool b : intact)
    CHECK(b);
}

TEST_CASE("scratch memory is kept, grows, and belongs to its thread") {
  void* small = thread_scratch(1000);
  CHECK(thread_scratch(10) == small);
  void* large = thread_scratch(3 << 20);
  REQUIRE(large != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(large) % 64 == 0);
  CHECK(thread_scratch(std::int64_t{1} << 55) == nullptr);
  void* mine = thread_scratch(100);
  void* theirs = nullptr;
  std::thread([&] { theirs = thread_scratch(100); }).join();
  CHECK(mine != theirs);
}
