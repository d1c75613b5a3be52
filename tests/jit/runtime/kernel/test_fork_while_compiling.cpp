// Tests forks while other threads compile: the child finds no lock held, and can launch the same kernel.
#include "random_numbers.h"

#include <kiln/jit/base/fork.h>
#include <kiln/jit/base/sanitized.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kiln;

KILN_DIM(BN);

namespace {

// The exit status of a child that runs `work`, or -1 if it did not end.
template <class F> int in_child(const F& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("a fork while another thread compiles waits, and the child launches the same kernel") {
  if (sanitized) return; // sanitizers do not allow threads in a child of a threaded process
  test::Random random;
  KILN_SEED(random);
  const auto salt = static_cast<float>(random.uniform(1, 2)); // so that the kernel is not in the cache
  std::atomic<bool> recording{false};
  const auto slow = kernel("slow", [salt, &recording](View<float, 1> y) {
    recording = true;
    auto [i] = program_tile(y, BN);
    Tile t = y.tile(i).load();
    for (int j = 0; j < 20; ++j)
      t = sin(t) * salt;
    y.tile(i).store(t);
  });
  auto launch = [&] {
    std::vector<float> y(64, 0.5f);
    Stream stream;
    slow.launch(stream, {BN = 64}, TensorView(y));
    stream.synchronize();
    double expected = 0.5;
    for (int j = 0; j < 20; ++j)
      expected = std::sin(expected) * salt;
    return std::fabs(y[17] - expected) < 1e-3;
  };
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) // one compiles, and the others wait for it
    threads.emplace_back([&] { right += launch(); });
  while (!recording)
    std::this_thread::yield();
  CHECK(in_child(launch) == 0);
  for (std::thread& t : threads)
    t.join();
  CHECK(right == 3);
}

TEST_CASE("a kernel whose recording forks does not wait for itself") {
  if (sanitized) return;
  int status = -1;
  const auto forks = kernel("forks", [&status](View<float, 1> y) {
    status = in_child([] { return true; });
    auto [i] = program_tile(y, BN);
    y.tile(i).store(full(2.0f, BN));
  });
  std::vector<float> y(5);
  Stream stream;
  forks.launch(stream, {BN = 8}, TensorView(y));
  stream.synchronize();
  CHECK(status == 0);
  CHECK(y == std::vector<float>(5, 2.0f));
}

TEST_CASE("work that begins during forks waits for them, and forks wait for work") {
  if (sanitized) return;
  std::atomic<bool> inside{false}, stop{false};
  std::atomic<int> rounds{0};
  std::thread worker([&] {
    while (!stop) {
      HoldsForks outer;
      HoldsForks inner;
      inside = true;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      inside = false;
      ++rounds;
    }
  });
  for (int i = 0; i < 50; ++i)
    CHECK(in_child([&] {
            HoldsForks again; // must not wait for the parent's threads
            return !inside.load();
          }) == 0);
  stop = true;
  worker.join();
  CHECK(rounds > 0);
}
