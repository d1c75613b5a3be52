// Compiles one product for a named CPU and calls it, for the tests and the benchmarks of `dot`.
#pragma once

#include <cstdint>
#include <functional>
#include <kiln/jit/cpu/dot/dot.h>
#include <memory>
#include <string>

namespace llvm::orc {
class LLJIT;
}

namespace kiln::test {

// The last two parameters are used by shapes that round.
using DotFunction = void (*)(const void* a, std::int64_t a_row_stride, std::int64_t a_column_stride,
                             const void* b, std::int64_t b_row_stride, std::int64_t b_column_stride, void* c,
                             std::int64_t c_row_stride, std::int64_t m, std::int64_t n, std::int64_t k,
                             bool accumulate, void* scratch, void* rounded, std::int64_t rounded_row_stride);

enum class Amx { Hardware, Emulated }; // what executes AMX's instructions

class CompiledDot {
public:
  // `cpu` names a processor whose code the host can run (runnable_target in other_cpus.h). `adjust` may
  // change what the code is allowed to use.
  CompiledDot(const cpu::DotShape& shape, const std::string& cpu,
              const std::function<void(cpu::DotTarget&)>& adjust = {}, Amx amx = Amx::Hardware);
  ~CompiledDot();
  CompiledDot(const CompiledDot&) = delete;
  CompiledDot& operator=(const CompiledDot&) = delete;

  DotFunction run = nullptr;
  cpu::DotTarget target;
  std::int64_t scratch_bytes = 0;
  double build_ms = 0, optimise_ms = 0, codegen_ms = 0;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

// Whether this machine can run code for that processor (runnable_target in other_cpus.h).
bool host_runs(const std::string& cpu);

} // namespace kiln::test
