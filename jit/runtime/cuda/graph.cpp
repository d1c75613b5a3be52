// Captures and replays graphs.
#include <kiln/jit/runtime/cuda/graph.h>

#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/queue.h>

#include <utility>

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
  // Relaxed: a kernel's first launch may load its module, which the other modes forbid.
  device.check(device.driver().cuStreamBeginCapture(queue_.handle(), capture_mode_relaxed),
               "cuStreamBeginCapture", &queue_.history());
  open_ = true;
}

GraphCapture::~GraphCapture() {
  if (!open_) return;
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
  GraphHandle recorded = nullptr;
  device.check(driver.cuStreamEndCapture(queue_.handle(), &recorded), "cuStreamEndCapture",
               &queue_.history());
  Graph graph;
  graph.device_ = &device;
  std::size_t nodes = 0;
  Result result = driver.cuGraphGetNodes(recorded, nullptr, &nodes);
  if (result == Result::Success) result = driver.cuGraphInstantiateWithFlags(&graph.exec_, recorded, 0);
  driver.cuGraphDestroy(recorded); // the instance is a copy
  device.check(result, "cuGraphInstantiateWithFlags");
  graph.size_ = static_cast<std::int64_t>(nodes);
  return graph;
}

Graph::~Graph() {
  if (exec_) clean_up(*device_, [&] { device_->driver().cuGraphExecDestroy(exec_); });
}

Graph::Graph(Graph&& other) noexcept
    : device_(other.device_), exec_(std::exchange(other.exec_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  Graph taken(std::move(other));
  std::swap(device_, taken.device_);
  std::swap(exec_, taken.exec_);
  std::swap(size_, taken.size_);
  return *this;
}

void Graph::launch(Stream& stream, std::source_location here) {
  if (!exec_) throw UserError(here, "launch of a graph that holds nothing; capture one first");
  Queue& queue = queue_of(stream);
  if (&queue.device() != device_)
    throw UserError(here, "a graph of " + device_->name() + " is launched on a stream of " +
                              queue.device().name() + "; use a stream of its own device");
  Current current(*device_);
  if (queue.failed()) std::rethrow_exception(queue.error());
  queue.history().add({"a captured graph", here});
  device_->history().add({"a captured graph", here});
  device_->check(device_->driver().cuGraphLaunch(exec_, queue.handle()), "cuGraphLaunch", &queue.history());
}

} // namespace kiln::cuda
