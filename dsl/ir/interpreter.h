// Declares the reference interpreter of tile IR: slow, obviously correct, and what tests compare all back
// ends with.
//
//   interpret(bound_kernel, words.data(), grid_of(bound_kernel, words.data()));
//
// It runs on the memory that the arguments point to, one program after the other, and evaluates each
// operation as SEMANTICS.md and semantics.h define it. Where SEMANTICS.md leaves a choice, it makes the
// simplest one: reductions and scans run from the first element to the last, and `dot` accumulates floats in
// f64 and rounds once.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace kiln::ir {

struct InterpreterOptions {
  // Without a seed, programs run in the order of their index, in which axis 0 changes fastest. With a seed,
  // the order is shuffled.
  std::optional<std::uint64_t> shuffle_seed = std::nullopt;
  // Receives each line of device_print, without its newline. If it is null, the lines are dropped.
  std::function<void(const std::string& line)> print = {};
  // Receives every result of every operation without regions. Tests compare what analyses claim with it.
  std::function<void(const Value& result, std::span<const std::uint64_t> cells)> observe = {};
  // Whether device_assert is active. A failed one throws a UserError with the line, the program and the
  // values.
  bool device_asserts = true;
  // How many iterations all loops of one program may run in sum. Beyond that, a UserError names the loop. 0
  // stands for no limit.
  std::int64_t max_iterations = 100'000'000;
};

// Runs all programs of `grid`, after checking `expects`. The kernel must be bound, which means that every
// dimension is a number. `arguments` has the layout of arguments.h. Axes that `grid` lacks have one program.
void interpret(const Kernel& bound, const std::uint64_t* arguments, std::span<const std::int64_t> grid,
               const InterpreterOptions& options = {});

} // namespace kiln::ir
