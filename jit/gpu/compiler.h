// From lowered tile IR to PTX.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <string>

namespace kiln::gpu {

struct Target {
  std::string arch = "sm_80"; // "sm_80", "sm_90a", "sm_100a"
  int ptx = 0;                // PTX ISA version, 83 for 8.3; 0: the lowest that serves
};

struct PtxOptions {
  int warps = 4;
  bool debug = false;     // asserts act
  bool line_info = false; // .loc lines of the user's source, which debug has too
  bool keep_llvm = false; // fill Ptx::llvm
};

struct Ptx {
  std::string text;
  std::string entry; // the kernel's symbol: see entry_name
  std::string llvm;  // as emitted
  KernelShape shape;
};

// The lowest PTX version that serves, 80 for 8.0. UserError for an architecture that Kiln does not know.
int lowest_ptx(const std::string& arch);
// A kernel's name as PTX can spell it: letters, digits, _ and $.
std::string entry_name(const std::string& kernel);

// `lowered` is bound and lowered (passes::lower_generic). UserError for what the target lacks; thread-safe.
Ptx compile_to_ptx(const ir::Kernel& lowered, const Target& target, const PtxOptions& options = {});

} // namespace kiln::gpu
