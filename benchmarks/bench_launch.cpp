// Measures what a launch costs the host: queueing, distributing a loop over threads, waiting, compiling.
//
//   build/bin/bench_launch
//
// The kernel itself is not included. Times are CPU times of the calling thread, or wall times where a
// comment says so. The targets for medians are: warm_launch at most 1 us, cold_compile at most 60 ms,
// disk_hit at most 2 ms.
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
  for (auto _ : state) // the grid is empty, so nothing is queued
    matmul.launch(stream, {BM = 64, BN = 64, BK = 64, num_warps = 8}, empty, bv, empty);
}
BENCHMARK(warm_launch_of_matmul_arguments);

// The wall time from the lambda to runnable code. Each iteration uses a config that is not in the cache on
// disk.
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

// The same, with a new kernel whose code is in the cache on disk.
void disk_hit(benchmark::State& state) {
  Config config{BM = 64, BN = 128, BK = 64};
  make_matmul().warm_up(Device::cpu(), config);
  for (auto _ : state)
    make_matmul().warm_up(Device::cpu(), config);
}
BENCHMARK(disk_hit)->Unit(benchmark::kMillisecond)->UseRealTime();

struct Payload {
  std::int64_t* count;
  unsigned char arguments[120]; // the size of the arguments of a kernel with five views
};

void count_up(void* payload, CommandAction) { ++*static_cast<Payload*>(payload)->count; }

// An empty kernel that is marked as small, on an idle stream: it runs in the launching call.
void enqueue_small(benchmark::State& state) {
  Stream stream;
  std::int64_t count = 0;
  Payload payload{&count, {}};
  for (auto _ : state)
    stream.enqueue(count_up, &payload, sizeof payload, {.small = true});
  stream.synchronize();
}
BENCHMARK(enqueue_small);

// Launches back to back, in batches that fit in the queue, while the stream's thread executes them.
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

// A launch on a stream whose thread sleeps, which includes waking it.
void enqueue_parked(benchmark::State& state) {
  Stream stream;
  std::int64_t count = 0;
  Payload payload{&count, {}};
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(300)); // the thread works, then goes to sleep
    auto begin = std::chrono::steady_clock::now();
    stream.enqueue(count_up, &payload, sizeof payload);
    auto end = std::chrono::steady_clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  }
}
BENCHMARK(enqueue_parked)->UseManualTime()->Iterations(500);

// The wall time of a launch and of waiting for it.
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

// The wall time of an empty loop of two chunks on two threads, while the worker spins.
void parallel_for_two_chunks(benchmark::State& state) {
  ThreadPool pool(2);
  for (auto _ : state)
    pool.parallel_for(2, nothing, nullptr, 1);
}
BENCHMARK(parallel_for_two_chunks)->UseRealTime();

// A loop of one chunk, which the caller executes itself.
void parallel_for_one_chunk(benchmark::State& state) {
  for (auto _ : state)
    ThreadPool::shared().parallel_for(1, nothing, nullptr);
}
BENCHMARK(parallel_for_one_chunk);

// Distributes chunks one by one; the time per item is the cost of one chunk.
void parallel_for_many_chunks(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  constexpr std::int64_t n = 100000;
  for (auto _ : state)
    pool.parallel_for(n, nothing, nullptr, 1);
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(parallel_for_many_chunks)->Arg(2)->UseRealTime();

} // namespace

// Uses a new cache folder, and removes it at the end.
int main(int argc, char** argv) {
  auto folder = std::filesystem::temp_directory_path() / ("kiln-bench-" + std::to_string(getpid()));
  setenv("KILN_CACHE_DIR", folder.c_str(), 1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(folder);
}
