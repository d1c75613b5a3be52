// Tests which calls with atomic operations are the sole ones, and which wait.
#include <kiln/jit/base/sole_updates.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace kiln;

TEST_CASE("one call is the sole one, and the others wait for it and share then") {
  SoleUpdates updates;
  REQUIRE(updates.begin(true));
  std::atomic<bool> shared{false};
  std::thread other([&] {
    CHECK_FALSE(updates.begin(true));
    shared = true;
    updates.end(false);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(shared);
  updates.end(true);
  other.join();
  CHECK(shared);
  CHECK_FALSE(updates.begin(true)); // calls share for a while after one had to wait
  CHECK_FALSE(updates.begin(true));
  updates.end(false);
  updates.end(false);
}

TEST_CASE("no call is the sole one while others share, and no thread is left waiting") {
  SoleUpdates updates;
  CHECK_FALSE(updates.begin(false));
  CHECK_FALSE(updates.begin(true));
  updates.end(false);
  updates.end(false);
  CHECK(updates.begin(true));
  updates.end(true);

  // A counter that sole calls change by plain loads and stores, and others atomically.
  constexpr int threads = 4, calls = 20000;
  std::int64_t sum = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int k = 0; k < calls; ++k) {
        const bool sole = updates.begin(t % 2 == 0);
        std::atomic_ref<std::int64_t> shared(sum);
        if (sole)
          shared.store(shared.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        else
          shared.fetch_add(1, std::memory_order_relaxed);
        updates.end(sole);
      }
    });
  for (auto& thread : all)
    thread.join();
  CHECK(sum == threads * calls);
}
