// What launches cost the host: queueing a command, sharing a loop between threads, waiting.
//
//   build/bin/bench_launch
//
// The parts of a launch that are not the kernel; times are of the calling thread unless "wall" is said.
// Figures to reach: warm_launch at most 1 us, cold_compile at most 60 ms, disk_hit at most 2 ms (medians).
#include <benchmark/benchmark.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/kiln.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {

// A warm launch of an empty kernel of one program, on an idle stream.
void warm_launch(benchmark::State& state) {
  auto empty = kernel("empty", [](View<float, 1> x) { (void)program_tile(x, BN); });
  std::vector<float> x(16);
  TensorView view(x);
  Stream stream;
  empty.warm_up(stream.device(), {BN = 16});
  for (auto _ : state)
    empty.launch(stream, {BN = 16}, view);
  stream.synchronize();
}
BENCHMARK(warm_launch);

// The same with the parameters of a matmul: three checked views and an expectation.
auto make_matmul() {
  return kernel("matmul", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    expects(a.cols() == b.rows(), "a's columns and b's rows");
    auto [m, n] = program_tile(c, BM, BN);
    auto acc = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
      return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
    });
    c.tile(m, n).store(relu(acc));
  });
}
void warm_launch_of_matmul_arguments(benchmark::State& state) {
  auto matmul = make_matmul();
  std::vector<float> a(64), b(64);
  TensorView av(a, {8, 8}), bv(b, {8, 8}), empty = av.slice(0, 0, 0);
  Stream stream;
  for (auto _ : state) // an empty grid: all but the queue
    matmul.launch(stream, {BM = 64, BN = 64, BK = 64, num_warps = 8}, empty, bv, empty);
}
BENCHMARK(warm_launch_of_matmul_arguments);

// From the lambda to runnable code. Every iteration has a config that the cache on disk lacks, ...
std::int64_t next_config = 0;
void cold_compile(benchmark::State& state) {
  auto matmul = make_matmul();
  auto before = compile_statistics();
  for (auto _ : state)
    matmul.warm_up(Device::cpu(), {BM = 64 + 4 * ++next_config, BN = 128, BK = 64});
  if (compile_statistics().compiled - before.compiled != static_cast<std::int64_t>(state.iterations()))
    state.SkipWithError("the cache on disk was not empty");
}
BENCHMARK(cold_compile)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(1)
    ->Repetitions(11)
    ->ReportAggregatesOnly();

// ... or one that it has while the kernel is new.
void disk_hit(benchmark::State& state) {
  Config config{BM = 64, BN = 128, BK = 64};
  make_matmul().warm_up(Device::cpu(), config);
  for (auto _ : state)
    make_matmul().warm_up(Device::cpu(), config);
}
BENCHMARK(disk_hit)->Unit(benchmark::kMillisecond)->UseRealTime();

struct Payload {
  std::int64_t* count;
  unsigned char arguments[120]; // as many as a kernel of five views has
};

void count_up(void* payload, CommandAction) { ++*static_cast<Payload*>(payload)->count; }

// An empty kernel marked small, on an idle stream: runs in the launching call.
void enqueue_small(benchmark::State& state) {
  Stream stream;
  std::int64_t count = 0;
  Payload payload{&count, {}};
  for (auto _ : state)
    stream.enqueue(count_up, &payload, sizeof payload, {.small = true});
  stream.synchronize();
}
BENCHMARK(enqueue_small);

// Launches back to back, in batches that fit the queue; the stream's thread works beside.
void enqueue_back_to_back(benchmark::State& state) {
  Stream stream;
  std::int64_t count = 0;
  Payload payload{&count, {}};
  constexpr int batch = 100;
  for (auto _ : state) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i)
      stream.enqueue(count_up, &payload, sizeof payload);
    auto end = std::chrono::steady_clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count() / batch);
    stream.synchronize();
  }
}
BENCHMARK(enqueue_back_to_back)->UseManualTime()->Iterations(20000);

// A launch on a stream whose thread sleeps: the price of the wake-up.
void enqueue_parked(benchmark::State& state) {
  Stream stream;
  std::int64_t count = 0;
  Payload payload{&count, {}};
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(300)); // in which it runs the command, and parks
    auto begin = std::chrono::steady_clock::now();
    stream.enqueue(count_up, &payload, sizeof payload);
    auto end = std::chrono::steady_clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  }
}
BENCHMARK(enqueue_parked)->UseManualTime()->Iterations(500);

// Wall time of a launch and the wait for it.
void enqueue_and_synchronize(benchmark::State& state) {
  Stream stream;
  std::int64_t count = 0;
  Payload payload{&count, {}};
  for (auto _ : state) {
    stream.enqueue(count_up, &payload, sizeof payload);
    stream.synchronize();
  }
}
BENCHMARK(enqueue_and_synchronize)->UseRealTime();

void nothing(void* context, std::int64_t, std::int64_t, int) noexcept { benchmark::DoNotOptimize(context); }

// Wall time of an empty loop of two chunks over two threads, the worker spinning.
void parallel_for_two_chunks(benchmark::State& state) {
  ThreadPool pool(2);
  for (auto _ : state)
    pool.parallel_for(2, nothing, nullptr, 1);
}
BENCHMARK(parallel_for_two_chunks)->UseRealTime();

// One chunk: never leaves the caller.
void parallel_for_one_chunk(benchmark::State& state) {
  for (auto _ : state)
    ThreadPool::shared().parallel_for(1, nothing, nullptr);
}
BENCHMARK(parallel_for_one_chunk);

// Handing out chunks one by one; see the time per item.
void parallel_for_many_chunks(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  constexpr std::int64_t n = 100000;
  for (auto _ : state)
    pool.parallel_for(n, nothing, nullptr, 1);
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(parallel_for_many_chunks)->Arg(2)->UseRealTime();

} // namespace

// With a cache folder of its own, empty at the start and removed at the end.
int main(int argc, char** argv) {
  auto folder = std::filesystem::temp_directory_path() / ("kiln-bench-" + std::to_string(getpid()));
  setenv("KILN_CACHE_DIR", folder.c_str(), 1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(folder);
}
