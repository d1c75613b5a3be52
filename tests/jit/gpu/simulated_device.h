// Runs what becomes PTX on the CPU: a fiber for each thread of a block, in an order that a seed decides.
//
// The kernel is lowered by the emitter that serves PTX, onto a machine whose shuffles and barriers call back
// here. A fiber runs until it must wait; warps whose lanes all wait at a shuffle exchange, and a block whose
// threads all wait at a barrier goes on. What never goes on is reported.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <cstdint>
#include <memory>
#include <string>

namespace kiln::test {

// TSan does not follow fibers, and there is one thread only: tests return at once under it.
inline constexpr bool simulates = !thread_sanitized;

class SimulatedKernel {
public:
  // `lowered` as for PTX.
  SimulatedKernel(const ir::Kernel& lowered, int warps, bool debug = false);
  ~SimulatedKernel();

  // Every program of the grid, one after the other, on launch words (dsl/ir/arguments.h) that point at host
  // memory. `overlap`: what the host would tell about views that share memory. Throws InternalError for
  // threads that wait for ever.
  void run(const std::uint64_t* words, const std::vector<std::int64_t>& grid, bool overlap,
           std::uint64_t seed) const;

  const std::string& llvm() const { return llvm_; }
  std::int64_t barriers() const; // that the last run's first program went through
  std::int64_t failed() const;   // asserts, by threads, in the last run
  std::int64_t printed() const;  // lines, in the last run

private:
  struct State;
  std::unique_ptr<State> state_;
  std::string llvm_;
};

} // namespace kiln::test
