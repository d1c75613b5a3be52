// Tests kernels that many threads use at once, and that a warm launch does not allocate.
#include <kiln/kiln.h>

#include <allocation_count.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

using namespace kiln;

KILN_DIM(BN);

namespace {

template <class F> void on_threads(int count, const F& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] { body(t); });
  for (std::thread& t : threads)
    t.join();
}

} // namespace

TEST_CASE("threads that launch a new variant at once compile it once") {
  std::atomic<int> recordings{0};
  auto k = kernel("shared", [&](View<float, 1> x) {
    ++recordings;
    auto [i] = program_tile(x, BN);
    x.tile(i).store(x.tile(i).load() + 1.0f);
  });
  constexpr int threads = 8, configs = 3;
  std::vector<std::vector<float>> data(threads, std::vector<float>(1000));
  on_threads(threads, [&](int t) {
    Stream stream;
    for (int round = 0; round < 20; ++round)
      for (int c = 0; c < configs; ++c)
        k.launch(stream, {BN = 16 << c}, TensorView(data[static_cast<std::size_t>(t)]));
    stream.synchronize();
  });
  for (const auto& x : data)
    REQUIRE(x == std::vector<float>(x.size(), 20.0f * configs));
  REQUIRE(recordings == configs);
}

TEST_CASE("all threads get the error of a compile that fails, and a later call tries again") {
  std::atomic<bool> broken{true};
  std::atomic<int> errors{0};
  auto k = kernel("flaky", [&](View<float, 1> x) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (broken) throw std::runtime_error("not yet");
    auto [i] = program_tile(x, BN);
    x.tile(i).store(1.0f);
  });
  on_threads(6, [&](int) {
    std::vector<float> x(10);
    Stream stream;
    try {
      k.launch(stream, {BN = 4}, TensorView(x));
    } catch (const std::runtime_error&) {
      ++errors;
    }
  });
  REQUIRE(errors == 6);
  broken = false;
  std::vector<float> x(10);
  Stream stream;
  k.launch(stream, {BN = 4}, TensorView(x));
  stream.synchronize();
  REQUIRE(x == std::vector<float>(10, 1.0f));
}

TEST_CASE("variants for many configs of one kernel are found again") {
  auto k = kernel("many", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(static_cast<float>(value(BN)));
  });
  std::vector<float> x(3);
  Stream stream;
  for (int round = 0; round < 2; ++round)
    for (int size = 1; size <= 40; ++size) {
      k.launch(stream, {BN = size, num_warps = 1 + size % 3}, TensorView(x));
      stream.synchronize();
      REQUIRE(x == std::vector<float>(3, static_cast<float>(size)));
    }
}

TEST_CASE("a warm launch does not allocate") {
  auto k = kernel("warm", [](View<const float, 2> a, View<float, 2> b, Scalar<float> f) {
    expects(a.rows() == b.rows(), "rows");
    auto [i, j] = program_tile(b, 1_c, BN);
    b.tile(i, j).store(a.tile(i, j).load() * f);
  });
  std::vector<float> a(64, 2), b(64);
  TensorView av(a, {8, 8}), bv(b, {8, 8});
  Stream stream;
  k.launch(stream, {BN = 8, num_warps = 4}, av, bv, 3.0f);
  stream.synchronize();
  long before = allocation_count();
  for (int i = 0; i < 100; ++i)
    k.launch(stream, {BN = 8, num_warps = 4}, av, bv, 3.0f);
  REQUIRE(allocation_count() == before);
  stream.synchronize();
  REQUIRE(b == std::vector<float>(64, 6.0f));
}
