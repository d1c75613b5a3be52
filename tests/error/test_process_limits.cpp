// Tests limits of a process: one thread, more threads than CPUs, CPUs that are taken away, no memory, a fork.
//
// Each case runs this program again, because the number of threads is determined once per process.
#include "error_test.h"
#include "test_seed.h"

#include <kiln/jit/base/sanitized.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);

// Computes a product and a row reduction of random data on all threads. Returns whether both are right.
bool products_are_right(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> digit(-3, 3);
  const std::int64_t m = 201, n = 130, k = 77;
  std::vector<float> a(m * k), b(k * n), c(m * n, NAN), rows(m * n);
  for (auto* values : {&a, &b})
    for (float& v : *values)
      v = static_cast<float>(digit(random));
  Stream stream;
  ops::matmul(stream, TensorView(a, {m, k}), TensorView(b, {k, n}), TensorView(c, {m, n}));
  ops::softmax(stream, TensorView(c, {m, n}), TensorView(rows, {m, n}));
  stream.synchronize();
  for (std::int64_t i = 0; i < m; ++i) {
    double total = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0; // a sum of small integers, which is exact in any order
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[i * k + l] * b[l * n + j];
      if (c[i * n + j] != sum) return false;
      total += rows[i * n + j];
    }
    if (!(std::fabs(total - 1) < 1e-5)) return false;
  }
  return true;
}

bool work() {
  const auto seed = fresh_seed();
  const bool right = products_are_right(seed);
  if (!right) std::fprintf(stderr, "wrong results with seed %llu\n", static_cast<unsigned long long>(seed));
  return right;
}

// Restricts all existing threads to one CPU, as `taskset -a` does.
bool shrink_affinity() {
  cpu_set_t old, one;
  if (sched_getaffinity(0, sizeof old, &old) != 0) return false;
  CPU_ZERO(&one);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&one) == 0; --cpu)
    if (CPU_ISSET(cpu, &old)) CPU_SET(cpu, &one);
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return false;
  bool done = true;
  while (const dirent* entry = readdir(tasks))
    if (const int id = std::atoi(entry->d_name)) done &= sched_setaffinity(id, sizeof one, &one) == 0;
  closedir(tasks);
  return done;
}

bool works_while_cpus_are_taken() { return work() && shrink_affinity() && work() && work(); }

bool works_after_fork() {
  if (!work()) return false;
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 && work();
}

std::int64_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// Checks that a kernel without memory for its scratch fails with the size in the error, and works again
// later.
bool scratch_is_refused() {
  const auto running = kernel("running_sums", [](View<const float, 2> x, View<float, 2> y) {
    auto [i, j] = program_tile(x, BM, BN);
    y.tile(i, j).store(cumsum(x.tile(i, j).load(), BN));
  });
  const Config config = {BM = 4096, BN = 8192}; // 128 MiB
  std::vector<float> x(64 * 64, 1), y(64 * 64);
  auto launch = [&] {
    Stream stream;
    running.launch(stream, config, TensorView(x, {64, 64}), TensorView(y, {64, 64}));
    stream.synchronize();
  };
  running.warm_up(Device::cpu(), config, {LayoutClass::Aligned, LayoutClass::Aligned});
  running.warm_up(Device::cpu(), config, {LayoutClass::Unit, LayoutClass::Unit});
  if (!work()) return false; // now all threads exist
  rlimit limit{}, old{};
  getrlimit(RLIMIT_AS, &old);
  limit.rlim_cur = static_cast<rlim_t>(address_space() + (64 << 20)), limit.rlim_max = old.rlim_max;
  setrlimit(RLIMIT_AS, &limit);
  const std::string error = error_of(launch);
  setrlimit(RLIMIT_AS, &old);
  std::fprintf(stderr, "%s\n", error.c_str());
  const std::string start = "kernel \"running_sums\": no memory for the ",
                    end = " bytes of scratch that a thread needs; use smaller tiles or fewer threads";
  if (error.rfind(start, 0) != 0 || error.size() < start.size() + end.size() ||
      error.compare(error.size() - end.size(), end.size(), end) != 0)
    return false;
  if (std::atoll(error.c_str() + start.size()) < 4096ll * 8192 * 4) return false;
  launch();
  return y[63] == 64;
}

constexpr const char* variable = "KILN_TEST_PROCESS_LIMITS";

struct Case {
  const char* name;
  bool (*run)();
};
constexpr Case cases[] = {{"work", work},
                          {"affinity", works_while_cpus_are_taken},
                          {"fork", works_after_fork},
                          {"scratch", scratch_is_refused}};

// Runs this program again with a case and a number of threads, and returns its exit status.
int run_case(const char* name, const char* threads) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv(variable, name, 1);
    if (threads) setenv("KILN_NUM_THREADS", threads, 1);
    alarm(120);
    execl("/proc/self/exe", "api_tests", "process limits: the case of the environment", nullptr);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return status;
}

} // namespace

// This case is hidden. The cases below start it in new processes, whose limits and threads it may change.
TEST_CASE("process limits: the case of the environment", "[.]") {
  const char* name = std::getenv(variable);
  if (!name) {
    WARN("skipped: started by the cases below");
    return;
  }
  for (const Case& c : cases)
    if (std::string(c.name) == name) REQUIRE(c.run());
}

TEST_CASE("kernels run on one thread, and on many more than there are CPUs") {
  for (const char* threads : {"1", "2", "7", "64"}) {
    CAPTURE(threads);
    CHECK(run_case("work", threads) == 0);
  }
}

TEST_CASE("kernels run on when the process loses CPUs") {
  CHECK(run_case("affinity", nullptr) == 0);
  CHECK(run_case("affinity", "5") == 0);
}

TEST_CASE("kernels run in the child of a fork, and still in its parent") {
  if (thread_sanitized) return; // TSan does not support threads in a forked child
  for (const char* threads : {"1", "3"})
    CHECK(run_case("fork", threads) == 0);
}

TEST_CASE("a kernel without memory for its scratch fails with the size") {
  if (sanitized) return; // sanitizers do not work with a limit on the address space
  for (const char* threads : {"1", "3"})
    CHECK(run_case("scratch", threads) == 0);
}

TEST_CASE("a kernel is compiled on a thread with 256 KiB of stack") {
  if (sanitized) return; // sanitizers make stack frames larger
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, std::size_t{256} << 10) == 0);
  static std::atomic<int> right{0};
  pthread_t thread;
  const auto work = [](void*) -> void* {
    static std::uint64_t made =
        0; // a kernel that is in no cache, and needs a product, a reduction and functions
    const auto value = static_cast<float>(fresh_seed() % 1000003 + ++made);
    const auto fresh = kernel("small stack", [value](View<const float, 2> a, View<float, 2> c) {
      auto [m, n] = program_tile(c, BM, BN);
      Tile t = a.tile(m, n).load();
      Tile p = dot(t, trans(t));
      c.tile(m, n).store(exp(t) + expand<1>(sum(p, axis<1>)) * 0.f + value);
    });
    std::vector<float> a(32 * 32), c(32 * 32);
    Stream stream;
    fresh.launch(stream, {BM = 32, BN = 32}, TensorView(a, {32, 32}), TensorView(c, {32, 32}));
    stream.synchronize();
    right = c[77] == 1 + value;
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, work, nullptr) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  CHECK(right == 1);
}
