// Times batches of launches with the host's clock or with CUDA events.
#include <kiln/autotune/analytic/timed.h>

#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/event.h>

#include <algorithm>
#include <chrono>

namespace kiln::tune {

namespace {

constexpr double all_seconds = 0.08, batch_seconds = 5e-3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

void Timed::check() const {
  if (stop_ && stop_()) throw Stopped();
}

double Timed::least_seconds(const std::function<void(Stream&)>& launch) {
  check();
  launch(stream_); // compiles
  stream_.synchronize();
  return device().kind() == DeviceKind::Cuda ? on_cuda(launch) : on_host(launch);
}

double Timed::on_host(const std::function<void(Stream&)>& launch) {
  double least = 1e30;
  int calls = 1;
  for (double end = now() + all_seconds; now() < end;) {
    check();
    const double begin = now();
    for (int i = 0; i < calls; ++i)
      launch(stream_);
    stream_.synchronize();
    const double seconds = (now() - begin) / calls;
    least = std::min(least, seconds);
    calls = std::clamp(static_cast<int>(batch_seconds / seconds), 1, 10'000);
  }
  return least;
}

double Timed::seconds_of(const std::function<void(Stream&)>& batch) {
  Event begin, end;
  begin.record(stream_);
  batch(stream_);
  end.record(stream_);
  stream_.synchronize();
  return end.elapsed_ms(begin) * 1e-3;
}

// Uses a graph, since the host could not launch short kernels as fast as they run.
double Timed::on_cuda(const std::function<void(Stream&)>& launch) {
  constexpr int most_calls = 500; // per graph
  const double once = std::max(seconds_of(launch), 1e-9);
  const int calls = std::clamp(static_cast<int>(batch_seconds / once), 1, most_calls);
  cuda::GraphCapture capture(stream_);
  for (int i = 0; i < calls; ++i)
    launch(stream_);
  cuda::Graph graph = capture.end();
  graph.launch(stream_); // the first launch uploads the graph
  stream_.synchronize();
  double least = 1e30;
  for (double end = now() + all_seconds; now() < end;) {
    check();
    least = std::min(least, seconds_of([&](Stream& stream) { graph.launch(stream); }) / calls);
  }
  return least;
}

} // namespace kiln::tune
