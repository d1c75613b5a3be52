// Predicts what a kernel moves and computes: bytes read and written through views and pointers, and
// floating-point operations.
//
//   Cost cost = cost_of(lowered, {.words = {...}});   // with the arguments of a launch, as far as known
//   double seconds = std::max(cost.unique_bytes() / bandwidth, cost.flops / peak);
//
// It runs the kernel's scalar arithmetic, so that loops count their iterations and tiles that stick out of
// a view count what is inside. Of a large grid and of a long loop it takes a sample, the first and the last
// member included, and scales it up. What it cannot know it assumes, and says so in `assumptions`:
//
//   - masks let every element through;
//   - a loop without a known trip count runs once, a branch takes its heavier side;
//   - tiles are computed whole, their padding included (`in_bounds_flops` leaves it out).
//
// Flops: one for each element of an elementwise operation on floats, 2 M N K for a dot, and for division,
// roots and transcendental functions the weights of `flops_of`.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::passes {

// The argument block of a launch (dsl/ir/arguments.h) as far as it is known; empty: nothing is.
struct KnownArguments {
  std::vector<std::optional<std::uint64_t>> words;
  std::vector<std::int64_t> grid; // where the kernel defines none; empty: unknown
};

// Bytes through one parameter. `read` and `written` count every access; `whole` is the size of the view.
struct Traffic {
  double read = 0, written = 0;
  std::optional<double> whole;
};

struct Cost {
  std::vector<Traffic> parameters; // one for each; pointers without a known parameter count in `elsewhere`
  Traffic elsewhere;
  double flops = 0;
  double in_bounds_flops = 0; // of what tiles hold from inside of views alone
  double integer_ops = 0;     // of tiles; index arithmetic is not counted
  double reductions = 0;      // values that reductions leave: each ends with steps over the lanes of a vector
  // Of the whole grid; without a value the figures are those of one program.
  std::optional<double> programs;
  double sampled_programs = 0; // how many were looked at
  std::vector<std::string> assumptions;

  double read() const;
  double written() const;
  // Every byte once each way: what must cross the memory bus if caches were perfect.
  double unique_bytes() const;
};

// `lowered` is bound (passes::lower_generic).
Cost cost_of(const ir::Kernel& lowered, const KnownArguments& arguments = {});

// Of one element of a float operation: 1 for an addition, more for what takes many instructions.
double flops_of(ir::Opcode code);

} // namespace kiln::passes
