// Tests that the pool runs every item once, for any caller.
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/jit/runtime/stream.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <random>
#include <sched.h>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace std::chrono_literals;

namespace {

struct Hits {
  explicit Hits(std::int64_t n) : count(static_cast<std::size_t>(n)) {}
  std::vector<std::atomic<int>> count;
  std::atomic<int> highest_worker{0};
  std::atomic<bool> empty_range{false};

  static void fn(void* context, std::int64_t begin, std::int64_t end, int worker) noexcept {
    auto& self = *static_cast<Hits*>(context);
    if (begin >= end) self.empty_range = true;
    for (std::int64_t i = begin; i < end; ++i)
      ++self.count[static_cast<std::size_t>(i)];
    int highest = self.highest_worker;
    while (worker > highest && !self.highest_worker.compare_exchange_weak(highest, worker)) {
    }
  }
  bool once() const {
    for (const auto& c : count)
      if (c != 1) return false;
    return true;
  }
};

void check_covered(ThreadPool& pool, std::int64_t n, std::int64_t grain) {
  Hits hits(n);
  pool.parallel_for(n, Hits::fn, &hits, grain);
  REQUIRE(hits.once());
  REQUIRE_FALSE(hits.empty_range);
  REQUIRE(hits.highest_worker < pool.size());
}

} // namespace

TEST_CASE("every item runs exactly once") {
  auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  ThreadPool pool(GENERATE(1, 2, 5));
  for (int i = 0; i < 300; ++i)
    check_covered(pool, static_cast<std::int64_t>(random() % 3000), static_cast<std::int64_t>(random() % 70));
}

TEST_CASE("an empty or negative range runs nothing") {
  ThreadPool pool(2);
  Hits hits(1);
  pool.parallel_for(0, Hits::fn, &hits);
  pool.parallel_for(-5, Hits::fn, &hits);
  CHECK(hits.count[0] == 0);
}

TEST_CASE("2^62 items are counted without overflow") {
  ThreadPool pool(3);
  std::atomic<std::int64_t> total{0};
  auto add = [](void* context, std::int64_t begin, std::int64_t end, int) noexcept {
    *static_cast<std::atomic<std::int64_t>*>(context) += end - begin;
  };
  pool.parallel_for(std::int64_t{1} << 62, add, &total);
  CHECK(total == std::int64_t{1} << 62);
  total = 0;
  pool.parallel_for((std::int64_t{1} << 62) - 1, add, &total, std::int64_t{1} << 60);
  CHECK(total == (std::int64_t{1} << 62) - 1);
}

TEST_CASE("a sleeping worker is woken, and the caller sees what it wrote") {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(3ms);
    std::vector<int> plain(1000);
    auto write = [](void* context, std::int64_t begin, std::int64_t end, int) noexcept {
      auto& v = *static_cast<std::vector<int>*>(context);
      for (auto i = begin; i < end; ++i)
        v[static_cast<std::size_t>(i)] = static_cast<int>(i);
      std::this_thread::sleep_for(10us);
    };
    pool.parallel_for(1000, write, &plain, 10);
    for (int i = 0; i < 1000; ++i)
      REQUIRE(plain[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("both threads of a pool take part") {
  ThreadPool pool(2);
  // Each chunk waits until two threads are inside, so this ends only if a worker joins.
  std::atomic<int> inside{0};
  auto meet = [](void* context, std::int64_t, std::int64_t, int) noexcept {
    auto& n = *static_cast<std::atomic<int>*>(context);
    ++n;
    while (n < 2)
      std::this_thread::yield();
  };
  pool.parallel_for(2, meet, &inside, 1);
  CHECK(inside == 2);
}

TEST_CASE("several host threads share a pool") {
  ThreadPool pool(3);
  std::atomic<int> failures{0};
  {
    std::vector<std::jthread> hosts;
    for (int h = 0; h < 6; ++h)
      hosts.emplace_back([&, h] {
        for (int i = 0; i < 200; ++i) {
          Hits hits(1 + (h * 37 + i) % 400);
          pool.parallel_for(static_cast<std::int64_t>(hits.count.size()), Hits::fn, &hits, 1 + i % 9);
          if (!hits.once()) ++failures;
        }
      });
  }
  CHECK(failures == 0);
}

TEST_CASE("a call from inside a chunk works, to any depth") {
  struct Nest {
    ThreadPool& pool;
    int depth;
    std::atomic<std::int64_t>& leaves;
    static void fn(void* context, std::int64_t begin, std::int64_t end, int) noexcept {
      auto& self = *static_cast<Nest*>(context);
      for (auto i = begin; i < end; ++i) {
        if (self.depth == 0) {
          ++self.leaves;
          continue;
        }
        Nest inner{self.pool, self.depth - 1, self.leaves};
        self.pool.parallel_for(6, fn, &inner, 1);
      }
    }
  };
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::int64_t> leaves{0};
    Nest nest{pool, 4, leaves};
    pool.parallel_for(6, Nest::fn, &nest, 1);
    REQUIRE(leaves == 6 * 6 * 6 * 6 * 6);
  }
}

TEST_CASE("an idle pool uses no CPU time") {
  ThreadPool pool(2);
  check_covered(pool, 100, 1);
  std::this_thread::sleep_for(5ms);
  auto cpu_ms = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
  };
  double before = cpu_ms();
  std::this_thread::sleep_for(100ms);
  CHECK(cpu_ms() - before < 20);
}

namespace {

// The CPU to which worker 1 of a pool of two is pinned, or -1.
int cpu_of_worker(ThreadPool& pool) {
  struct Seen {
    std::atomic<int> inside{0};
    std::atomic<int> cpu{-1};
  } seen;
  auto look = [](void* context, std::int64_t, std::int64_t, int worker) noexcept {
    auto& s = *static_cast<Seen*>(context);
    ++s.inside;
    while (s.inside < 2)
      std::this_thread::yield();
    cpu_set_t set;
    if (worker != 1 || sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) s.cpu = cpu;
  };
  pool.parallel_for(2, look, &seen, 1);
  return seen.cpu;
}

} // namespace

TEST_CASE("a worker is pinned, and moves if a caller runs on its CPU") {
  auto cpus = affinity_cpus();
  if (cpus.size() < 2 || cpus.back() >= CPU_SETSIZE) {
    WARN("skipped: needs two CPUs");
    return;
  }
  ThreadPool pool(2);
  int before = -1, after = -1, last = -1;
  std::thread([&] {
    auto stay_on = [](int cpu) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpu, &set);
      sched_setaffinity(0, sizeof set, &set);
    };
    stay_on(cpus[0]);
    before = cpu_of_worker(pool);
    stay_on(cpus[1]);
    after = cpu_of_worker(pool);
    std::this_thread::sleep_for(2ms); // workers move at a limited rate
    stay_on(after);
    last = cpu_of_worker(pool);
  }).join();
  CHECK(before == cpus[1]);
  CHECK(after == cpus[0]);
  CHECK(last == cpus[1]);
}

TEST_CASE("in a forked child, workers are started again") {
  if (thread_sanitized) return; // it does not allow threads in a child of a threaded process
  ThreadPool pool(2);
  check_covered(pool, 100, 1);
  // A starting worker allocates, and ASan's allocator does not handle fork: its lock would stay locked in the
  // child.
  std::this_thread::sleep_for(100ms);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    Hits hits(1000);
    pool.parallel_for(1000, Hits::fn, &hits, 1);
    std::atomic<int> inside{0};
    auto meet = [](void* context, std::int64_t, std::int64_t, int) noexcept {
      auto& n = *static_cast<std::atomic<int>*>(context);
      ++n;
      while (n < 2)
        std::this_thread::yield();
    };
    pool.parallel_for(2, meet, &inside, 1);
    _exit(hits.once() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  check_covered(pool, 100, 1);
}

TEST_CASE("the shared pool has as many threads as the device") {
  CHECK(&ThreadPool::shared() == &ThreadPool::shared());
  check_covered(ThreadPool::shared(), 5000, 0);
}

TEST_CASE("in the scope of a pool, streams run kernels on it, and the CPU has as many threads") {
  const int all = Device::cpu().properties().num_threads;
  ThreadPool three(3);
  ThreadPool* on_stream[3] = {};
  const auto note = [](void* to) { *static_cast<ThreadPool**>(to) = &ThreadPool::current(); };
  Stream outside;
  {
    const PoolScope scope(three);
    CHECK(&ThreadPool::current() == &three);
    CHECK(Device::cpu().properties().num_threads == 3);
    Stream inside;
    inside.host_function(note, &on_stream[0]);
    outside.host_function(note, &on_stream[1]);
    Stream::default_stream().host_function(note, &on_stream[2]);
    inside.synchronize(), outside.synchronize(), Stream::default_stream().synchronize();
    std::thread([&] { CHECK(&ThreadPool::current() == &ThreadPool::shared()); }).join();
  }
  CHECK(on_stream[0] == &three);
  CHECK(on_stream[1] == &ThreadPool::shared());
  CHECK(on_stream[2] == &ThreadPool::shared());
  CHECK(&ThreadPool::current() == &ThreadPool::shared());
  CHECK(Device::cpu().properties().num_threads == all);
}
