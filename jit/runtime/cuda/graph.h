// CUDA graphs: commands that are recorded once and replayed with one call.
//
//   cuda::GraphCapture capture(stream);
//   launch(stream, ...); copy(stream, ...);        // recorded, not run
//   cuda::Graph graph = capture.end();
//   for (int i = 0; i < steps; ++i) graph.launch(stream);
//
// A graph stores the values of arguments and the addresses of memory and functions. All of them must live
// until the last launch of the graph has finished.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/cuda/api.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <source_location>
#include <type_traits>

namespace kiln::cuda {
class DeviceState;
class Queue;
} // namespace kiln::cuda

KILN_API_BEGIN
namespace kiln::cuda {

// Thread-safe except for moves and destruction. Launches of one graph run one after the other.
class Graph {
public:
  // The number of commands: kernels, copies, memsets and others.
  std::int64_t size() const { return exec_ ? size_ : 0; }
  // Queues all commands on a stream of the graph's device. UserError if the graph is empty (default-made or
  // moved from), or if the stream is of another device. Errors of its commands are reported like those of
  // other commands, and name the graph.
  void launch(Stream& stream, std::source_location here = std::source_location::current());

private:
  friend class GraphCapture;
  struct Destroy {
    DeviceState* device;
    void operator()(GraphExecHandle exec) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<GraphExecHandle>, Destroy> exec_{nullptr, Destroy{nullptr}};
  std::int64_t size_ = 0;
};

// While it lives, commands on the stream are recorded and do not run. The stream must outlive it. Waiting for
// the stream (synchronize) and host functions are UserErrors meanwhile; compiling and allocating work as
// usual.
class GraphCapture {
public:
  // UserError if the stream is not of a CUDA device, or is being captured already.
  explicit GraphCapture(Stream& stream, std::source_location here = std::source_location::current());
  ~GraphCapture(); // if end() was not called, discards what was recorded
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  // Ends the capture. TargetError if a command made the capture invalid. Call it once.
  Graph end();

private:
  Queue& queue_;
  bool open_ = false;
};

} // namespace kiln::cuda
KILN_API_END
