// What `kiln explain` finds out about one kernel, and how it is printed.
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/kernel_options.h>
#include <kiln/jit/cpu/target.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

struct ExplainOptions {
  std::string cpu;            // to compile for; empty: the host
  std::string grid;           // programs along each axis, "16x4", for kernels that do not define it
  bool debug = false;         // with the checks that KILN_DEBUG adds
  double bandwidth = 0;       // GB/s; 0: not given
  double peak = 0;            // GFLOP/s; 0: not given
  bool on_gpu = false;        // what a GPU makes of it, too
  std::string arch = "sm_80"; // of that GPU
};

struct PassResult {
  std::string name, tile_ir;
};

// A layout that the GPU back end chose, and the tiles that live in it.
struct LayoutPicture {
  std::vector<std::string> tiles; // "%5: tile<1 x 4096 x f32>"
  std::string picture;
};

struct Explanation {
  std::string name, summary, config;
  std::string cpu_config;               // the sizes that the CPU takes instead (cpu/rewrite/widen.h); empty: the same
  std::string unused_by_gpu;            // options of the config, "num_ctas, num_stages"
  std::string recorded;                 // tile IR
  std::vector<PassResult> passes;       // in order
  std::vector<std::string> grid;        // "cdiv(a.extent(0), 64)" for each axis
  std::vector<std::int64_t> programs;   // along each axis; empty: unknown
  std::vector<LayoutPicture> pictures;  // in program order
  std::vector<std::string> free_tiles;  // that are made where they are used, in any layout
  std::int64_t warps = 4;               // of the pictures
  std::optional<UserError> gpu_refusal; // of compiling it for the GPU: there are no pictures then
  Example example;
  std::vector<std::string> types; // of parameters, layout classes included
  std::vector<LayoutClass> layouts;
  bool layouts_given = false;
  cpu::Target target;
  std::int64_t scratch_bytes = 0;
  std::size_t object_bytes = 0;
  std::string llvm_before, llvm_after, assembly;
  passes::Cost cost;
  std::optional<double> memory_seconds, compute_seconds; // at best, if bandwidth or peak are given
};

// Compiles the kernel. UserError as compiling for the CPU and launching would throw it.
Explanation explain(const RequestedKernel& kernel, const KernelOptions& sizes, const ExplainOptions& options);

// Which parts are printed.
struct Sections {
  bool passes = false, llvm = false, assembly = false, pictures = false;
  bool all = false; // all of them, and whole tile IR after each pass in place of what it changed
  std::string source_folder = "."; // where source files are looked for
};
std::string to_text(const Explanation& explanation, const Sections& sections);
std::string to_json(const Explanation& explanation);

} // namespace kiln::cli
