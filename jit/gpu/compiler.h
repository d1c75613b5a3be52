// From lowered tile IR to PTX.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <string>

namespace kiln::gpu {

struct Target {
  std::string arch = "sm_80"; // "sm_80", "sm_90a", "sm_100a"
  int ptx = 0;                // PTX ISA version, 83 for 8.3; 0: the lowest that serves
};

inline constexpr int default_warps = 4;

struct PtxOptions {
  int warps = default_warps;
  bool debug = false;     // asserts act
  bool line_info = false; // .loc lines of the user's source, which debug has too
  bool keep_llvm = false; // fill Ptx::llvm
  int max_registers = 0;  // that a thread may have; 0: as many as it likes
};

struct Ptx {
  std::string text;
  std::string entry; // the kernel's symbol: see entry_name
  std::string llvm;  // as emitted
  KernelShape shape;
};

// What a config says of a block: num_warps and max_registers. UserError if a GPU has no such block.
PtxOptions ptx_options(const std::string& kernel, const Config& config);
// Those that it sets and that have no effect: "num_ctas, num_stages". A program is one block, and loads are
// under way as early as ptxas puts them.
std::string unused_options(const Config& config);

// The lowest PTX version that serves, 80 for 8.0. UserError for an architecture that Kiln does not know.
int lowest_ptx(const std::string& arch);
// A kernel's name as PTX can spell it: letters, digits, _ and $.
std::string entry_name(const std::string& kernel);

// `lowered` is bound and lowered (passes::lower_generic). UserError for what the target lacks; thread-safe.
Ptx compile_to_ptx(const ir::Kernel& lowered, const Target& target, const PtxOptions& options = {});

} // namespace kiln::gpu
