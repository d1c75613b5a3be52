// Collects what `kiln explain` shows about a kernel, and prints it.
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/kernel_options.h>
#include <kiln/jit/cpu/target.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

struct ExplainOptions {
  std::string cpu;      // CPU to compile for; empty: the host
  std::string grid;     // programs along each axis, as in "16x4", for kernels that do not define their grid
  bool debug = false;   // include the checks that KILN_DEBUG adds
  double bandwidth = 0; // GB/s; 0: not given
  double peak = 0;      // GFLOP/s; 0: not given
  bool on_gpu = false;  // also show the layouts on a GPU
  std::string arch = "sm_80"; // of that GPU
};

struct PassResult {
  std::string name, tile_ir;
};

// A layout that the GPU back end chose, with the tiles that have it.
struct LayoutPicture {
  std::vector<std::string> tiles; // "%5: tile<1 x 4096 x f32>"
  std::string picture;
};

struct Explanation {
  std::string name, summary, config;
  std::string cpu_config;    // the sizes that the CPU uses instead (cpu/rewrite/widen.h); empty: the same
  std::string unused_by_gpu; // options of the config, "num_ctas, num_stages"
  std::string recorded;      // tile IR
  std::vector<PassResult> passes;       // in order
  std::vector<std::string> grid;        // "cdiv(a.extent(0), 64)" for each axis
  std::vector<std::int64_t> programs;   // along each axis; empty: unknown
  std::string remark;                   // of the registration
  std::vector<LayoutPicture> pictures;  // in program order
  std::vector<std::string> free_tiles;  // computed where they are used, in any layout
  std::int64_t warps = 4;               // for the pictures
  std::optional<UserError> gpu_refusal; // the error of compiling for the GPU; then there are no pictures
  Example example;
  std::vector<std::string> types; // types of the parameters, layout classes included
  std::vector<LayoutClass> layouts;
  bool layouts_given = false;
  cpu::Target target;
  std::int64_t scratch_bytes = 0;
  std::size_t object_bytes = 0;
  std::string llvm_before, llvm_after, assembly;
  passes::Cost cost;
  std::optional<double> memory_seconds, compute_seconds; // lower bounds, if bandwidth or peak are given
};

// Compiles the kernel. Throws the UserErrors of compiling it for the CPU and of launching it.
Explanation explain(const RequestedKernel& kernel, const KernelOptions& sizes, const ExplainOptions& options);

// Selects the parts that are printed.
struct Sections {
  bool passes = false, llvm = false, assembly = false, pictures = false;
  bool all = false;                // all parts, with the whole tile IR after each pass instead of the changes
  std::string source_folder = "."; // folder in which source files are searched
};
std::string to_text(const Explanation& explanation, const Sections& sections);
std::string to_json(const Explanation& explanation);

} // namespace kiln::cli
