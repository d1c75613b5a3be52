// Captures and launches CUDA graphs.
#include <kiln/jit/runtime/cuda/graph.h>

#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/graph_memory.h>
#include <kiln/jit/runtime/cuda/queue.h>

namespace kiln::cuda {

GraphCapture::GraphCapture(Stream& stream, std::source_location here) : queue_(queue_of(stream)) {
  DeviceState& device = queue_.device();
  Current current(device);
  if (queue_.capturing())
    throw UserError(here, "a graph is already being captured from this stream of " + device.name() +
                              "; end that capture first");
  if (!queue_.handle())
    throw UserError(here, "a graph cannot be captured from the default stream of " + device.name() +
                              "; capture from another stream");
  memory_ = std::make_unique<GraphMemory>(device.allocator());
  // Relaxed mode, because the first launch of a kernel may load its module, which the other modes forbid.
  device.check(device.driver().cuStreamBeginCapture(queue_.handle(), capture_mode_relaxed),
               "cuStreamBeginCapture", &queue_.history());
  open_ = true;
  queue_.set_graph_memory(memory_.get());
}

GraphCapture::~GraphCapture() {
  if (!open_) return;
  queue_.set_graph_memory(nullptr);
  DeviceState& device = queue_.device();
  clean_up(device, [&] {
    GraphHandle graph = nullptr;
    if (device.driver().cuStreamEndCapture(queue_.handle(), &graph) == Result::Success && graph)
      device.driver().cuGraphDestroy(graph);
  });
}

Graph GraphCapture::end() {
  if (!open_) throw UserError("end() of a graph's capture that has ended; capture again");
  DeviceState& device = queue_.device();
  Current current(device);
  const Driver& driver = device.driver();
  open_ = false;
  queue_.set_graph_memory(nullptr);
  GraphHandle recorded = nullptr;
  device.check(driver.cuStreamEndCapture(queue_.handle(), &recorded), "cuStreamEndCapture",
               &queue_.history());
  Graph graph;
  std::size_t nodes = 0;
  GraphExecHandle exec = nullptr;
  Result result = driver.cuGraphGetNodes(recorded, nullptr, &nodes);
  if (result == Result::Success) result = driver.cuGraphInstantiateWithFlags(&exec, recorded, 0);
  driver.cuGraphDestroy(recorded); // the executable graph is a copy
  device.check(result, "cuGraphInstantiateWithFlags");
  graph.exec_ = {exec, Graph::Destroy{&device, memory_->empty() ? nullptr : memory_.release()}};
  graph.size_ = static_cast<std::int64_t>(nodes);
  return graph;
}

void Graph::Destroy::operator()(GraphExecHandle exec) const noexcept {
  clean_up(*device, [&] { device->driver().cuGraphExecDestroy(exec); });
  delete memory;
}

void Graph::launch(Stream& stream, std::source_location here) {
  if (!exec_) throw UserError(here, "launch of an empty graph; capture one first");
  Queue& queue = queue_of(stream);
  DeviceState& device = *exec_.get_deleter().device;
  if (&queue.device() != &device)
    throw UserError(here, "a graph of " + device.name() + " is launched on a stream of " +
                              queue.device().name() + "; use a stream of its own device");
  Current current(device);
  queue.check_commands();
  queue.history().add({"a captured graph", here});
  device.history().add({"a captured graph", here});
  device.check(device.driver().cuGraphLaunch(exec_.get(), queue.handle()), "cuGraphLaunch", &queue.history());
  if (GraphMemory* memory = exec_.get_deleter().memory) memory->launched(queue);
}

} // namespace kiln::cuda
