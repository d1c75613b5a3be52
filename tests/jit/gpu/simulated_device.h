// Runs the code of a kernel for a GPU on the CPU, with a fiber for each thread of a block.
//
// A seed decides the order in which threads run.
//
// The emitter that produces PTX lowers the kernel for a machine whose shuffles and barriers call back here. A
// fiber runs until it must wait. A warp continues when all of its lanes wait at a shuffle, and a block when
// all of its threads wait at a barrier. Threads that can never continue are reported.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <cstdint>
#include <memory>
#include <string>

namespace kiln::test {

// TSan does not follow fibers, and there is only one thread anyway, so tests return at once under TSan.
inline constexpr bool simulates = !thread_sanitized;

class SimulatedKernel {
public:
  // `lowered` is what compile_to_ptx takes.
  SimulatedKernel(const ir::Kernel& lowered, int warps, bool debug = false);
  ~SimulatedKernel();

  // Runs all programs of the grid one after the other, on launch words (dsl/ir/arguments.h) that point to
  // host memory. `overlap` is the flag that the host passes to say whether views share memory. Throws an
  // InternalError if threads wait forever.
  void run(const std::uint64_t* words, const std::vector<std::int64_t>& grid, bool overlap,
           std::uint64_t seed) const;

  const std::string& llvm() const { return llvm_; }
  // Of the last run: the barriers that its first program executed, the asserts that failed, counted for each
  // thread, and the lines that were printed.
  std::int64_t barriers() const;
  std::int64_t failed() const;
  std::int64_t printed() const;

private:
  struct State;
  std::unique_ptr<State> state_;
  std::string llvm_;
};

} // namespace kiln::test
