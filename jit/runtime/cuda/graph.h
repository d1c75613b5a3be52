// Defines CUDA graphs: commands of a stream that are recorded once and replayed with one call.
//
//   cuda::GraphCapture capture(stream);
//   launch(stream, ...); copy(stream, ...);        // recorded, not run
//   cuda::Graph graph = capture.end();
//   for (int i = 0; i < steps; ++i) graph.launch(stream);
//
// A graph stores the values of arguments and the addresses of memory and functions. That memory and those
// functions must live until the last launch of the graph has finished. A replay reads the contents that
// the memory has at that time, but the values that scalar arguments had during the capture.
//
// Memory for intermediate results, which ops and `assign` allocate in the order of the stream, belongs to the
// graph. Where the driver has memory pools, its allocation and its release are nodes of the graph; elsewhere
// the graph owns blocks of memory. So calls that need such memory can be captured, too, and the caller must
// only keep the arguments of the calls alive.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/cuda/api.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <source_location>
#include <type_traits>

namespace kiln::cuda {
class DeviceState;
class GraphMemory;
class Queue;
} // namespace kiln::cuda

KILN_API_BEGIN
namespace kiln::cuda {

// A recorded graph. Thread-safe except for moves and destruction. Launches of one graph run one after the
// other, even on different streams.
class Graph {
public:
  // Returns the number of recorded commands: kernels, copies, memsets, allocations, releases and others; 0 if
  // the graph is empty.
  std::int64_t size() const { return exec_ ? size_ : 0; }
  // Queues all commands on a stream of the graph's device, and returns without waiting for them. Throws
  // UserError if the graph is empty (default-constructed or moved from) or if the stream is of another
  // device. Errors of its commands are reported like those of other commands of the stream, and name the
  // graph.
  void launch(Stream& stream, std::source_location here = std::source_location::current());

private:
  friend class GraphCapture;
  struct Destroy {
    DeviceState* device;
    GraphMemory* memory = nullptr; // null unless the graph owns memory
    void operator()(GraphExecHandle exec) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<GraphExecHandle>, Destroy> exec_{nullptr, Destroy{nullptr}};
  std::int64_t size_ = 0;
};

// Captures a stream: from construction until end() or destruction, commands on the stream are recorded
// instead of run. The stream must outlive this object. Meanwhile, waiting for the stream (synchronize) and
// queueing host functions throw UserError; compiling and allocating work as usual.
class GraphCapture {
public:
  // Begins the capture. Throws UserError if the stream is not of a CUDA device, is the default stream of the
  // device, or is already being captured.
  explicit GraphCapture(Stream& stream, std::source_location here = std::source_location::current());
  ~GraphCapture(); // discards the recorded commands if end() was not called
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  // Ends the capture and returns the graph. Throws UserError if it is called again, and TargetError if a
  // command made the capture invalid.
  Graph end();

private:
  Queue& queue_;
  std::unique_ptr<GraphMemory> memory_;
  bool open_ = false;
};

} // namespace kiln::cuda
KILN_API_END
