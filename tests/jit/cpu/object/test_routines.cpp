// Tests the routines that kernels share: compiled once, found in the process and on disk.
#include "test_seed.h"

#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cpu/object/routines.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
namespace fs = std::filesystem;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {

auto product_plus(float number) {
  return kernel("product", [number](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto acc) {
      return acc + dot(a.tile(m, k).load(), b.tile(k, n).load());
    });
    c.tile(m, n).store(sum + number);
  });
}

// Computes a product and returns the sum of the errors of its elements.
double distance(std::mt19937_64& random, float number) {
  constexpr std::int64_t m = 70, n = 131, k = 45;
  std::vector<float> a(m * k), b(k * n), c(m * n, NAN);
  for (auto* matrix : {&a, &b})
    for (float& x : *matrix)
      x = static_cast<float>(random() % 9) - 4;
  Stream stream;
  product_plus(number).launch(
      stream, {BM = 64, BN = 64, BK = 32}, TensorView<const float, 2>(a.data(), {m, k}),
      TensorView<const float, 2>(b.data(), {k, n}), TensorView<float, 2>(c.data(), {m, n}));
  stream.synchronize();
  double all = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = number;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * k + l)]) *
               b[static_cast<std::size_t>(l * n + j)];
      all += std::abs(sum - c[static_cast<std::size_t>(i * n + j)]);
    }
  return all;
}

// Runs the hidden test below in a process of its own with a cache folder.
struct Process {
  std::string output;
  int status = 0;

  Process(const fs::path& cache, float number, const std::string& more = "") {
    std::string command = more +
                          " KILN_CACHE_LIMIT=1G KILN_LOG=warning KILN_KEEP= KILN_DEBUG= KILN_CACHE_DIR='" +
                          cache.string() + "' KILN_TEST_NUMBER=" + std::to_string(number) + " /proc/" +
                          std::to_string(getpid()) + "/exe 'one product in a process of its own' 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe);
    char text[4096];
    while (std::size_t count = std::fread(text, 1, sizeof text, pipe))
      output.append(text, count);
    status = pclose(pipe);
    INFO(output);
    CHECK(status == 0);
  }
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "kiln-routines-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }

  std::vector<cache::ListedEntry> routines() const { return those(true); }
  std::vector<cache::ListedEntry> kernels() const { return those(false); }
  fs::path file(const cache::ListedEntry& e) const { return path / cache::entry_file_name(e.key); }

private:
  std::vector<cache::ListedEntry> those(bool routines) const {
    std::vector<cache::ListedEntry> chosen;
    for (const auto& e : cache::DiskCache(path).list())
      if (e.entry.metadata.kernel.starts_with(cpu::routine_prefix) == routines) chosen.push_back(e);
    return chosen;
  }
};

} // namespace

TEST_CASE("kernels share the routines of their products") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  auto new_number = [&] {
    return static_cast<float>(random() % (1 << 20));
  }; // a number that makes a kernel that no cache has
  cpu::forget_routines();
  CHECK(distance(random, new_number()) == 0);
  const auto first = cpu::routine_statistics();
  CHECK(distance(random, new_number()) == 0);
  const auto second = cpu::routine_statistics();
  CHECK(second.reused >= first.reused + 3); // loop nest, microkernel and packing
  CHECK(second.compiled == first.compiled);
  CHECK(second.loaded == first.loaded);
}

TEST_CASE("one product in a process of its own", "[.]") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const char* number = std::getenv("KILN_TEST_NUMBER");
  if (std::getenv("KILN_TEST_THREADLESS")) {
    // Stacks of threads do not fit the address space, so that no thread can be created.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstacksize(&attributes, std::size_t{1} << 40) == 0);
    REQUIRE(pthread_setattr_default_np(&attributes) == 0);
    pthread_attr_destroy(&attributes);
    CHECK_THROWS_AS(std::thread([] {}), std::system_error);
  }
  CHECK(distance(random, number ? std::stof(number) : 0) == 0);
  const auto kernels = compile_statistics();
  const auto routines = cpu::routine_statistics();
  std::printf("compiled=%d found=%d routines compiled=%d loaded=%d\n", static_cast<int>(kernels.compiled),
              static_cast<int>(kernels.disk_hits), static_cast<int>(routines.compiled),
              static_cast<int>(routines.loaded));
}

TEST_CASE("another process loads routines from the cache on disk, and whole kernels without them") {
  Folder folder;
  Process first(folder.path, 1);
  const auto count = folder.routines().size();
  const std::string n = std::to_string(count);
  CHECK(count >= 3);
  CHECK(first.says("compiled=1 found=0 routines compiled=" + n + " loaded=0"));
  CHECK(Process(folder.path, 1).says("compiled=0 found=1 routines compiled=0 loaded=0"));
  CHECK(Process(folder.path, 2).says("compiled=1 found=0 routines compiled=0 loaded=" + n));
  for (const auto& e : folder.routines())
    fs::remove(folder.file(e));
  CHECK(Process(folder.path, 2).says("compiled=0 found=1 routines compiled=0 loaded=0"));
  CHECK(Process(folder.path, 3).says("compiled=1 found=0 routines compiled=" + n + " loaded=0"));
}

TEST_CASE("routines are compiled by the waiting thread if no other thread can be created") {
  Folder folder;
  Process threadless(folder.path, 1, "KILN_TEST_THREADLESS=1 KILN_NUM_THREADS=1");
  CHECK(threadless.says("routines compiled=" + std::to_string(folder.routines().size())));
}

TEST_CASE("routines that are damaged in the cache are compiled again") {
  Folder folder;
  Process first(folder.path, 1);
  const auto routines = folder.routines();
  REQUIRE(routines.size() >= 3);
  fs::resize_file(folder.file(routines[0]), 100);
  std::fstream(folder.file(routines[1]), std::ios::in | std::ios::out | std::ios::binary)
          .seekp(-9, std::ios::end)
      << "!";
  Process second(folder.path, 2);
  CHECK(second.says("routines compiled=2 loaded=" + std::to_string(routines.size() - 2)));
  CHECK(Process(folder.path, 3).says("routines compiled=0 loaded=" + std::to_string(routines.size())));
  // An entry that is intact but contains no code.
  const std::string garbage = "not an object file";
  cache::DiskCache(folder.path).store(routines[2].key, garbage, routines[2].entry.metadata);
  Process fourth(folder.path, 4);
  CHECK(fourth.says("a kernel is compiled again without cached routines"));
  CHECK(fourth.says("compiled=1 found=0"));
  CHECK(Process(folder.path, 4).says("compiled=0 found=1"));
}
