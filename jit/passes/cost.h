// Declares the cost model: the bytes that a kernel moves through views and pointers, and its flops.
//
//   Cost cost = cost_of(lowered, {.words = {...}});   // with the arguments of a launch, as far as known
//   double seconds = std::max(cost.unique_bytes() / bandwidth, cost.flops / peak);
//
// The analysis evaluates the kernel's scalar arithmetic, so that the iterations of loops are counted, and
// accesses to tiles that overlap the edge of a view count only elements in bounds. For a large grid and for a
// long loop it evaluates a sample (sample_indices.h) and scales the result. Where it lacks information, it
// assumes the following, and lists what it assumed for this kernel in `assumptions`:
//
//   - masks are true for every element;
//   - a loop with an unknown trip count has one iteration, and an unknown branch is the more expensive one;
//   - tiles are computed as a whole, padding included (`in_bounds_flops` excludes padding).
//
// An elementwise operation on floats counts one flop for each element, a dot 2 M N K flops, and divisions,
// roots and transcendental functions count the weights of `flops_of`.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/passes/known_scalars.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::passes {

// The bytes that one parameter's memory accesses move. `read` and `written` count every access, and `whole`
// is the size of the view.
struct Traffic {
  double read = 0, written = 0;
  std::optional<double> whole;
};

struct Cost {
  std::vector<Traffic> parameters; // one for each
  Traffic elsewhere;               // accesses through pointers whose parameter is unknown
  double flops = 0;
  double in_bounds_flops = 0; // of elements that come from inside of views
  double integer_ops = 0;     // on tiles; scalar index arithmetic is not counted
  double reductions = 0;      // values that reductions compute; each ends with steps over a vector's lanes
  // The largest number of terms that reductions, dots and loops around them may add up in one value, at least
  // 1. A loop with an unknown trip count is taken to have 1024 iterations here.
  double longest_sum = 1;
  // The number of programs of the grid. If it is unknown, all figures are those of one program.
  std::optional<double> programs;
  double sampled_programs = 0; // how many were evaluated
  std::vector<std::string> assumptions;

  double read() const;
  double written() const;
  // The bytes that cross the memory bus with perfect caches: each byte is read and written at most once.
  double unique_bytes() const;
};

// `lowered` is bound (passes::lower_generic).
Cost cost_of(const ir::Kernel& lowered, const KnownArguments& arguments = {});

// The flops that one element of an operation on floats counts: 1 for an addition, more for functions that
// take many instructions.
double flops_of(ir::Opcode code);

} // namespace kiln::passes
