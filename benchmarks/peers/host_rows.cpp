// Measures the overhead of Kiln itself: the time to launch and to compile a kernel.
#include "benchmarks/numbers.h"
#include "suite.h"

#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/ops/dims.h>

#include <chrono>
#include <random>

namespace benchmarks {
namespace {

using namespace kiln;
using ops::BK;
using ops::BM;
using ops::BN;

void nothing(void* context, std::int64_t, std::int64_t, int) noexcept { asm volatile("" : : "r"(context)); }

// Measures the median time from the lambda to runnable code. Each kernel contains a new random number, so
// that no cache contains it.
template <class Make> void compile_row(Suite& suite, const std::string& name, int times, Make make) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    auto salt = static_cast<float>(random() >> 40);
    auto begin = std::chrono::steady_clock::now();
    make(salt);
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  Row row;
  row.group = "compile", row.name = name, row.seconds = median(all);
  suite.keep(row);
}

} // namespace

void launch_rows(Suite& suite) {
  if (!suite.wanted("launch")) return;
  auto timed = [&](const char* name, const std::function<void()>& run) {
    Row row;
    row.group = "launch", row.name = name;
    suite.run(row, {{.name = "Kiln", .run = run}}, {.unit = ""});
  };
  timed("distribute an empty loop over the threads",
        [&] { ThreadPool::shared().parallel_for(suite.threads(), nothing, nullptr, 1); });
  auto empty = kernel("empty", [](View<float, 1> x) { (void)program_tile(x, BN); });
  std::vector<float> x(16);
  timed("launch an empty kernel of one program, wait", [&] {
    empty.launch(suite.stream, {BN = 16}, TensorView<float, 1>(x));
    suite.stream.synchronize();
  });
}

void compile_rows(Suite& suite) {
  if (!suite.wanted("compile")) return;
  compile_row(suite, "compile a matmul kernel", suite.tiny() ? 1 : 11, [](float salt) {
    auto k = kernel("matmul", [salt](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
      auto [m, n] = program_tile(c, BM, BN);
      auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
        return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
      });
      c.tile(m, n).store(relu(sum) + salt);
    });
    k.warm_up(Device::cpu(), {BM = 256, BN = 256, BK = 512});
  });
  for (std::int64_t elements = 64; elements <= (suite.tiny() ? 64 : 1 << 20); elements *= 16)
    compile_row(suite, fmt::format("compile a softmax kernel of {} tile elements", elements), 5,
                [&](float salt) {
                  auto k = kernel("row", [salt](View<const float, 2> x, View<float, 2> y) {
                    auto [row] = program_tile(x, BM);
                    auto col = offset(BN, 0);
                    Tile e = exp(x.tile(row, col).load() * salt);
                    y.tile(row, col).store(e / sum(e, BN, keep));
                  });
                  k.warm_up(Device::cpu(), {BM = 8, BN = elements / 8});
                });
}

} // namespace benchmarks
