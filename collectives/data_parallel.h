// Declares GradientReducer, which reduces the gradients of data-parallel replicas while the backward pass is
// still running.
//
//   GradientReducer reducer(comm, {dw0, dw1, dw2});      // on all ranks, in the order of the layers
//   for (...) {                                          // for each step
//     ...                                                // computes dw2
//     reducer.ready(stream, 2);                          // its transfers overlap with what follows
//     ...                                                // computes dw1
//     reducer.ready(stream, 1);
//     ...
//     reducer.finish(stream);                            // now all gradients are means over the ranks
//   }
//
// Gradients are contiguous tensors of any float dtypes on the communicator's device. They must outlive the
// reducer, and must not overlap. They are divided into buckets of one dtype each, from the last gradient to
// the first, as in DistributedDataParallel of PyTorch. When all gradients of a bucket are ready, one
// all_reduce of the whole bucket starts. Buckets start in the order of their numbers: a complete bucket waits
// until all earlier ones have started. So ranks may call `ready` in different orders. Then make no other
// collective call on this communicator between the first `ready` of a step and `finish`.
//
// A bucket whose gradients are next to each other in memory, in the order of the list, is reduced in place.
// Any other bucket takes additional memory of its size, to which `ready` copies gradients, and from which
// `finish` copies their means. To save copies and memory, allocate all gradients of a model as one tensor.
//
// Each element is reduced in the order of ranks, in f32 (f64 for f64), and rounded once. So its bits do not
// depend on buckets or on the order of `ready`, unless options.order is ReductionOrder::engine.
//
// Each all_reduce takes workspace_bytes() of the communicator until it is complete. If it needs more than
// workspace_limit(), `ready` blocks until all its parts but the last are complete. Then it overlaps less, and
// all ranks must call `ready` at the same place among the collective calls on other communicators.
//
// Parameters must initially be equal on all ranks: broadcast them, or compare them with
// check_replicas (communicator.h). In steps that only accumulate gradients, do not call the reducer. If a
// layer is not used in a step, fill its gradient with zeros and call `ready`.
//
// Synchronize the stream before you destroy the reducer.
//
// Errors: the constructor throws UserError for tensors or options that are not as above, and on all ranks if
// they differ between ranks. Otherwise they are those of all_reduce. Not thread-safe.
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/buffer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct GradientReducerOptions {
  // The largest size of a bucket, unless it has a single larger gradient. Small buckets start early, and
  // large ones lose less time to latency. The first bucket has a limit of its own, because nothing is sent
  // before it.
  std::int64_t bucket_bytes = 25 << 20, first_bucket_bytes = 1 << 20;
  Reduction reduction = Reduction::mean; // or sum
  ReductionOrder order = ReductionOrder::ranks;
  std::string tag = "gradients"; // bucket 3 has the tag "gradients.3"
};

class GradientReducer {
public:
  using At = ops::detail::StreamAt;

  // All ranks of the communicator must call it, with gradients of the same dtypes and sizes. Blocks.
  GradientReducer(Communicator& comm, std::vector<ops::Output> gradients,
                  const GradientReducerOptions& options = {});
  GradientReducer(const GradientReducer&) = delete;

  // Declares that the work which computes gradient i is queued on the stream. If buckets are now complete, it
  // synchronizes the stream, and starts their reductions. Do not use the gradient until `finish`. In all
  // calls of a step, pass the same stream, or synchronize the earlier one before. UserError if there is no
  // gradient i, or if it was already ready in this step; then nothing has changed.
  void ready(At stream, std::size_t i);
  // Waits for the reductions of all buckets, and queues copies from buckets to gradients on the stream:
  // gradients are reduced when the work on the stream is done. Then the next step begins. UserError if a
  // gradient was not ready in this step; then nothing has changed, so the caller may still call `ready` for
  // it.
  void finish(At stream);

  struct Bucket {
    std::vector<std::size_t> gradients; // in the order of the list
    DType dtype = DType::F32;
    std::int64_t bytes = 0;
    bool in_place = false; // on this rank; other ranks may copy instead
  };
  // In the order in which they start.
  const std::vector<Bucket>& buckets() const { return buckets_; }

private:
  struct Memory { // of a bucket
    Buffer buffer;
    char* data = nullptr; // of the buffer, or of the first gradient
    std::size_t missing = 0;
    Work work;
  };

  void divide(const GradientReducerOptions& options);
  void compare_ranks(const GradientReducerOptions& options);
  void start_complete(At stream);

  Communicator& comm_;
  const std::vector<ops::Output> gradients_;
  const Reduction reduction_;
  const ReductionOrder order_;
  const std::string tag_;
  std::vector<Bucket> buckets_;
  std::vector<Memory> memories_;       // of the buckets
  std::vector<std::size_t> bucket_of_; // of each gradient
  std::vector<std::int64_t> place_of_; // of each gradient, in bytes from the begin of its bucket
  std::vector<bool> ready_;            // of each gradient
  std::size_t started_ = 0;            // buckets
};

} // namespace kiln::collectives
KILN_API_END
