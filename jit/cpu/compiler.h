// From tile IR to an object file for a CPU.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/target.h>

#include <string>
#include <vector>

namespace kiln::cpu {

struct CompileOptions {
  bool debug = false;     // asserts act
  bool line_info = false; // DWARF lines
  bool keep_llvm = false; // fill CompiledObject::llvm_before and llvm_after
  bool keep_assembly = false;
  // The routines of products become objects of their own (routines.h). Not with the four options above, which
  // look into code: then the kernel is one module and one object.
  bool share_routines = false;
  // Columns of the narrowest row whose last store may run within the next program (emit/deferral.cpp).
  std::int64_t deferred_columns = tuning::min_deferred_columns;
};

struct CompiledObject {
  std::vector<char> object;                      // ELF, relocatable
  std::vector<std::vector<char>> routines;       // likewise: those it calls
  std::int64_t scratch_bytes = 0;                // per worker
  std::string llvm_before, llvm_after, assembly; // text, if asked for
};

// `kernel` is bound and lowered (passes::lower_generic). Throws UserError for sizes that do not fit and for
// operations the CPU lacks; thread-safe.
CompiledObject compile(const ir::Kernel& kernel, const Target& target, const CompileOptions& options = {});

} // namespace kiln::cpu
