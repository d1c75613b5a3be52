// Implements the fake driver's entry points for graphs, which are captured and replayed.
#include "entry.h"

#include <memory>
#include <utility>

using namespace fake;
using namespace kiln::cuda;

FAKE_ENTRY cuStreamBeginCapture_v2(StreamHandle handle, int) {
  ENTER(true);
  stream_of(handle).captured.clear();
  stream_of(handle).captured_memory = std::make_shared<GraphMemory>();
  stream_of(handle).capturing = true;
  return Result::Success;
}

FAKE_ENTRY cuStreamEndCapture(StreamHandle handle, GraphHandle* graph) {
  ENTER(true);
  fake::Stream& s = stream_of(handle);
  s.capturing = false;
  *graph = reinterpret_cast<GraphHandle>(
      new Graph{std::move(s.captured), current(), std::move(s.captured_memory)});
  state().count("graphs", 1, *graph);
  return Result::Success;
}

FAKE_ENTRY cuStreamIsCapturing(StreamHandle handle, int* status) {
  ENTER(true);
  *status = stream_of(handle).capturing;
  return Result::Success;
}

FAKE_ENTRY cuGraphGetNodes(GraphHandle graph, void**, std::size_t* count) {
  ENTER(true);
  *count = reinterpret_cast<Graph*>(graph)->commands.size();
  return Result::Success;
}

FAKE_ENTRY cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
  ENTER(true);
  const Graph& of = *reinterpret_cast<Graph*>(graph);
  if (!of.memory->blocks.empty() && of.memory->instances > 0) return Result::NotSupported;
  ++of.memory->instances;
  *exec = reinterpret_cast<GraphExecHandle>(new Graph(of));
  state().count("execs", 1, *exec);
  return Result::Success;
}

FAKE_ENTRY cuGraphDestroy(GraphHandle graph) {
  ENTER(true);
  delete reinterpret_cast<Graph*>(graph);
  state().count("graphs", -1, graph);
  return Result::Success;
}

FAKE_ENTRY cuGraphLaunch(GraphExecHandle exec, StreamHandle handle) {
  ENTER(true);
  Graph& graph = *reinterpret_cast<Graph*>(exec);
  // Memory that the graph does not free must be freed before its next launch.
  if (graph.memory->launched && !graph.memory->all_freed()) return Result::InvalidValue;
  graph.memory->launched = true;
  for (const auto& command : graph.commands)
    stream_of(handle).push(command);
  stream_of(handle).push([kept = graph.memory] {}); // until then, although its graph may be destroyed
  return Result::Success;
}

FAKE_ENTRY cuGraphExecDestroy(GraphExecHandle exec) {
  ENTER(true);
  state().count("execs", -1, exec);
  --reinterpret_cast<Graph*>(exec)->memory->instances;
  delete reinterpret_cast<Graph*>(exec);
  return Result::Success;
}
