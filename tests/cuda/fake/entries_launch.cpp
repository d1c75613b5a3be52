// Implements the fake driver's entry points for launches. The stream's thread runs the kernels.
#include "entry.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

using namespace fake;
using namespace kiln::cuda;

namespace {

constexpr int cluster_limit = 8, large_cluster_limit = 16;

struct Run { // a launch that is queued
  FakeLaunch log;
  const fake::Function* function;
  std::vector<std::uint64_t> arguments;
};

int execute(const Run& run) {
  decltype(state().execute) somebody;
  FakeExecution e{};
  {
    std::lock_guard lock(state().mutex);
    somebody = state().execute;
    e.context = state().execute_context;
  }
  if (!somebody) return 0;
  const fake::Function& f = *run.function;
  e.image = f.image->data(), e.image_bytes = f.image->size(), e.kernel = f.name.c_str();
  std::copy_n(run.log.grid, 3, e.grid);
  std::copy_n(run.log.block, 3, e.block);
  e.argument_count = run.log.argument_count;
  e.arguments = run.arguments.data(), e.argument_bytes = f.parameters.data();
  return somebody(&e);
}

void run_kernel(Context& context, const Run& run) {
  if (long long ms = state().setting("kernel_ms")) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  int result;
  {
    std::lock_guard lock(state().mutex);
    state().launches.push_back(run.log);
    result = static_cast<int>(std::exchange(state().settings.at("kernel_result"), 0));
  }
  if (run.function->name == "add_one") {
    auto* x = reinterpret_cast<float*>(run.arguments[0]);
    for (std::uint64_t i = 0; i < run.arguments[1] && !result; ++i)
      x[i] += 1;
  } else if (!result) {
    result = execute(run);
  }
  if (result) context.lost = result;
}

Result launch(const char* entry_point, FunctionHandle function, const unsigned* grid, const unsigned* block,
              unsigned shared_bytes, StreamHandle stream, void** parameters, const unsigned* cluster,
              bool cooperative) {
  if (state().swallow) return Result::Success;
  auto& f = *reinterpret_cast<fake::Function*>(function);
  unsigned threads = block[0] * block[1] * block[2];
  if (threads == 0 || threads > 1024 || static_cast<int>(threads) > f.max_threads)
    return Result::InvalidValue;
  if (f.required_threads && static_cast<int>(threads) != f.required_threads) return Result::InvalidValue;
  if (grid[0] == 0 || grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535)
    return Result::InvalidValue;
  if (static_cast<int>(shared_bytes) > f.dynamic_shared - f.static_shared) return Result::InvalidValue;
  FakeLaunch l{};
  std::snprintf(l.kernel, sizeof l.kernel, "%s", f.name.c_str());
  std::snprintf(l.entry_point, sizeof l.entry_point, "%s", entry_point);
  l.device = current()->device;
  unsigned blocks = 1;
  for (int i = 0; i < 3; ++i) {
    l.grid[i] = grid[i], l.block[i] = block[i], l.cluster[i] = cluster ? cluster[i] : 0;
    if (cluster) blocks *= cluster[i];
  }
  if (static_cast<int>(blocks) > (f.large_clusters ? large_cluster_limit : cluster_limit))
    return Result::InvalidValue;
  l.shared_bytes = shared_bytes;
  l.local_bytes = f.local;
  l.cooperative = cooperative;
  l.argument_count = static_cast<int>(f.parameters.size());
  Run run{l, &f, std::vector<std::uint64_t>(f.parameters.size())};
  for (std::size_t i = 0; i < f.parameters.size(); ++i)
    std::memcpy(&run.arguments[i], parameters[i], static_cast<std::size_t>(f.parameters[i]));
  std::copy_n(run.arguments.begin(), std::min(run.arguments.size(), std::size(l.arguments)),
              run.log.arguments);
  run.log.stream = stream;
  Context* context = current();
  return push(stream, [context, run = std::move(run)] { run_kernel(*context, run); });
}

} // namespace

FAKE_ENTRY cuLaunchKernel(FunctionHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared_bytes, StreamHandle stream,
                          void** parameters, void**) {
  ENTER(true);
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(__func__, function, grid, block, shared_bytes, stream, parameters, nullptr, false);
}

FAKE_ENTRY cuLaunchCooperativeKernel(FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                     StreamHandle stream, void** parameters) {
  ENTER(true);
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(__func__, function, grid, block, shared_bytes, stream, parameters, nullptr, true);
}

#ifndef FAKE_CUDA_OLD
FAKE_ENTRY cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
  ENTER(true);
  const unsigned* cluster = nullptr;
  bool cooperative = false;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& a = config->attributes[i];
    if (a.id == launch_attribute_cluster) cluster = a.value.cluster;
    if (a.id == launch_attribute_cooperative) cooperative = a.value.cooperative;
  }
  return launch(__func__, function, config->grid, config->block, config->shared_bytes, config->stream,
                parameters, cluster, cooperative);
}
#endif
