// CUDA graphs: commands recorded once and replayed with one call.
//
//   cuda::GraphCapture capture(stream);
//   launch(stream, ...); copy(stream, ...);        // recorded, not run
//   cuda::Graph graph = capture.end();
//   for (int i = 0; i < steps; ++i) graph.launch(stream);
//
// A graph keeps the values of arguments and the addresses of memory and functions: all must live until its
// last launch has finished.
#pragma once

#include <kiln/jit/runtime/cuda/api.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <source_location>
#include <type_traits>

namespace kiln::cuda {

class DeviceState;
class Queue;

// Thread-safe but for moves and destruction; launches of one graph run one after the other.
class Graph {
public:
  // Commands: kernels, copies, memsets and the like.
  std::int64_t size() const { return exec_ ? size_ : 0; }
  // Queues all of it on a stream of its device. UserError if the graph is empty-handed or the stream is of
  // another device; errors of its commands come as those of any others, named as the graph's.
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

// While it lives, which the stream must too, commands on the stream are recorded and none runs. What waits
// for the stream (synchronize) and host functions are refused meanwhile. Compiling and allocating go on as
// ever.
class GraphCapture {
public:
  // UserError for a stream of another kind of device, and for one that is being captured.
  explicit GraphCapture(Stream& stream, std::source_location here = std::source_location::current());
  ~GraphCapture(); // without end(): what was recorded is forgotten
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  // TargetError if a command in between spoilt the capture. Once only.
  Graph end();

private:
  Queue& queue_;
  bool open_ = false;
};

} // namespace kiln::cuda
