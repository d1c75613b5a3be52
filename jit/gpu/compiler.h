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
  bool keep_llvm = false; // fill Ptx::llvm
};

struct Ptx {
  std::string text;
  std::string llvm; // as emitted
  KernelShape shape;
};

// `lowered` is bound and lowered (passes::lower_generic). UserError for what the target lacks; thread-safe.
Ptx compile_to_ptx(const ir::Kernel& lowered, const Target& target, const PtxOptions& options = {});

} // namespace kiln::gpu
