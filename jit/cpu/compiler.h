// Declares the compiler from tile IR to an object file for a CPU.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/target.h>

#include <string>
#include <vector>

namespace kiln::cpu {

struct CompileOptions {
  bool debug = false;     // emit asserts
  bool line_info = false; // emit DWARF lines
  bool keep_llvm = false; // fill CompiledObject::llvm_before and llvm_after
  bool keep_assembly = false;
  // Compile the routines of products to objects of their own (object/routines.h). Not allowed together with
  // the four options above, which need the whole kernel in one module and one object.
  bool share_routines = false;
  // Rows of at least this many columns may have their last store deferred to the next program
  // (emit/deferral.cpp).
  std::int64_t deferred_columns = tuning::min_deferred_columns;
  // Parts of kernels of more LLVM instructions than this become functions of their own (emit/outline.h).
  std::size_t whole_instructions = tuning::max_whole_instructions;
};

struct CompiledObject {
  std::vector<char> object;                      // a relocatable ELF object
  std::vector<std::vector<char>> routines;       // the routines that it calls, likewise
  std::int64_t scratch_bytes = 0;                // per worker
  std::string llvm_before, llvm_after, assembly; // text, if requested
};

// Compiles a kernel that is bound and lowered (passes::lower_generic). Throws UserError for sizes that do not
// fit and for operations that the CPU does not support. Thread-safe.
CompiledObject compile(const ir::Kernel& kernel, const Target& target, const CompileOptions& options = {});

} // namespace kiln::cpu
