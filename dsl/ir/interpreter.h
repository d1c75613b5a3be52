// The plain interpreter of tile IR: slow, obviously right, and what every other execution is compared with.
//
//   interpret(bound_kernel, words.data(), grid_of(bound_kernel, words.data()));
//
// It runs on the memory that the arguments point to, one program after the other, each operation as
// SEMANTICS.md says through semantics.h. Where SEMANTICS.md leaves a choice it makes the plainest one:
// reductions and scans run from the first element to the last, `dot` accumulates floats in f64 and rounds
// once.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace kiln::ir {

struct InterpreterOptions {
  // Programs run in order of their index (axis 0 fastest), or shuffled by this seed.
  std::optional<std::uint64_t> shuffle_seed = std::nullopt;
  // Receives each line of device_print, without its newline; null drops them.
  std::function<void(const std::string& line)> print = {};
  // Sees what each operation without regions computes, whenever it does: tests of analyses look here.
  std::function<void(const Value& result, std::span<const std::uint64_t> cells)> observe = {};
  // Whether device_assert is active. A failed one throws UserError with the line, the program and the values.
  bool device_asserts = true;
  // How many iterations all loops of one program may run together before a UserError names the loop; 0: any.
  std::int64_t max_iterations = 100'000'000;
};

// Runs all programs of `grid` (as many axes as the kernel uses, missing ones count 1). The kernel is bound:
// every dimension is a number. `arguments` is laid out as arguments.h says. `expects` is checked first.
void interpret(const Kernel& bound, const std::uint64_t* arguments, std::span<const std::int64_t> grid,
               const InterpreterOptions& options = {});

} // namespace kiln::ir
