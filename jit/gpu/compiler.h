// Compiles lowered tile IR to PTX.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <string>

namespace kiln::gpu {

struct Target {
  std::string arch = "sm_80"; // "sm_80", "sm_90a", "sm_100a"
  int ptx = 0;                // the PTX ISA version, 83 for 8.3; 0: the lowest that has the architecture
};

inline constexpr int default_warps = 4;

struct PtxOptions {
  int warps = default_warps;
  bool debug = false;     // whether asserts are checked
  bool line_info = false; // whether there are .loc lines of the user's source, which debug implies
  bool keep_llvm = false; // whether to fill Ptx::llvm
  int max_registers = 0;  // the limit for a thread; 0: none
};

struct Ptx {
  std::string text;
  std::string entry; // the symbol of the kernel: see entry_name
  std::string llvm;  // the LLVM IR before optimisation
  KernelShape shape;
};

// Reads num_warps and max_registers from a config. Throws a UserError if no GPU can have such a block.
PtxOptions ptx_options(const std::string& kernel, const Config& config);
// Lists the options that a config sets without effect on a GPU, as in "num_ctas, num_stages": a program is
// always one block, and loads are not pipelined over iterations.
std::string unused_options(const Config& config);

// The lowest PTX version that has the architecture, 80 for 8.0. Throws a UserError for an architecture that
// Kiln does not know.
int lowest_ptx(const std::string& arch);
// The name of a kernel as PTX can spell it: with letters, digits, _ and $ alone.
std::string entry_name(const std::string& kernel);

// Compiles a kernel that is bound and lowered (passes::lower_generic). Throws a UserError for what the target
// cannot do. Thread-safe.
Ptx compile_to_ptx(const ir::Kernel& lowered, const Target& target, const PtxOptions& options = {});

} // namespace kiln::gpu
