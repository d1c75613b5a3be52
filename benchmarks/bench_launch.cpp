// What launches cost the host: queueing a command, sharing a loop between threads, waiting.
//
//   build/bin/bench_launch
//
// The parts of a launch that are not the kernel; times are of the calling thread unless "wall" is said.
#include <benchmark/benchmark.h>
#include <kiln/jit/runtime/stream.h>
#include <kiln/jit/runtime/thread_pool.h>

#include <chrono>
#include <thread>

using namespace kiln;

namespace {

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
    stream.synchronize();
    std::this_thread::sleep_for(std::chrono::microseconds(300));
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

BENCHMARK_MAIN();
