// Declares the sum of what ranks contribute, in the order of ranks.
//
// Floats are accumulated in f32 (in f64 for f64) and rounded once, when the result is stored; i32 wraps
// around. So the bits depend neither on which rank reduces, nor on how the tensor is divided.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::collectives {

enum class Reduction : std::uint8_t { sum, max, min, product, mean };
const char* name_of(Reduction reduction); // "sum"

// In which order the contributions of ranks are combined. `ranks` is the same on every engine. `engine` lets
// the engine take the order that it is fastest in, so that bits depend on it; the one for threads has no
// other order than that of ranks. Nothing chooses `engine` but the caller.
enum class ReductionOrder : std::uint8_t { ranks, engine };

// RMSNorm of a sum c: y = c / sqrt(mean of c^2 + eps) * gamma, with the stored, rounded c, as ops::rmsnorm.
struct NormOfSum {
  ops::Input gamma = {}; // [columns]; {} counts as 1
  ops::Output y = {};    // with the extents of c; given if the norm is wanted
  double eps = 1e-5;
};

// y[i, j] = the reduction over ranks, where rank `rank` contributes own[i, j], and the others, in the order
// of their numbers, others[r, i, j]. Then adds bias[j] and residual[i, j], which are optional. y may be own
// or residual. With `norm`, rows are also normalised, by the same kernel if they fit a tile; the bits are those
// of ops::rmsnorm with batch_invariant. Queued on the stream.
struct ReduceArguments {
  const ops::Input& own;    // [rows, columns]
  const ops::Input& others; // [ranks - 1, rows, columns]
  const ops::Output& y;     // [rows, columns]
  int rank = 0;
  Reduction reduction = Reduction::sum;
  ops::Input bias = {}, residual = {};
  NormOfSum norm = {};
};
void reduce_in_order(ops::detail::StreamAt stream, const ReduceArguments& arguments);
// Normalises the rows of a sum c that is there already.
void normalise(ops::detail::StreamAt stream, const ops::Input& c, const NormOfSum& norm);

} // namespace kiln::collectives
KILN_API_END
