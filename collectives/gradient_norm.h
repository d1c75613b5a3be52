// Declares the L2 norm of all gradients of a model whose parameters are divided among ranks, and clipping by
// this norm.
//
//   // dup and ddown are shards; all ranks have the bias of the row-parallel layer.
//   const double norm = clip_gradient_norm(stream, comm, {{dup}, {ddown}, {dbias, comm.size()}}, 1.0);
//
// The norm is the square root of the sum of the squares of all elements on all ranks. A gradient that several
// ranks have, with the same bits, must count once: pass the number of these ranks as `copies`. All ranks of
// the communicator must call, each with its own gradients; a rank may have none. With tensor and data
// parallelism, first reduce the gradients over the replicas (data_parallel.h), and then clip with the
// communicator of the shards.
//
// Gradients are of any float dtypes, on the communicator's device, and contiguous, or matrices whose rows
// are contiguous, such as the columns of keys in the gradient of qkv.
//
// Squares are computed and added in f64. The result has the same bits on all ranks and in every run. It does
// not depend on the number of threads, but it does depend on how parameters are divided. Computing the norm
// reads each gradient once. Clipping reads and writes it once more, only if the norm is above the limit.
//
// Errors: UserError if gradients or options are not as above. Otherwise those of all_gather.
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/dsl/api.h>

#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct GradientShard {
  ops::Output gradient;
  int copies = 1; // the number of ranks of the communicator that have this gradient
};

// Returns the norm of all gradients. Blocks until all ranks have called it.
double gradient_norm(ops::detail::StreamAt stream, Communicator& comm,
                     const std::vector<GradientShard>& gradients, const std::string& tag = "gradient_norm");

struct ClipOptions {
  // Whether an infinite or NaN norm is a UserError, on all ranks. In either case gradients stay as they are.
  bool error_if_nonfinite = false;
  std::string tag = "gradient_norm";
};
// Returns the norm of all gradients before clipping, and multiplies them by max_norm / norm if that is less
// than 1. Products are computed in f32 (f64 for f64) and rounded once. If the norm is infinite or NaN,
// gradients stay as they are, and the caller should skip the step. (clip_grad_norm_ of PyTorch multiplies by
// 0 or NaN then, and otherwise by max_norm / (norm + 1e-6).) Blocks until all ranks have called it; the
// multiplication is queued on the stream.
double clip_gradient_norm(ops::detail::StreamAt stream, Communicator& comm,
                          const std::vector<GradientShard>& gradients, double max_norm,
                          const ClipOptions& options = {});

} // namespace kiln::collectives
KILN_API_END
