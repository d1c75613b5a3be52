// What a config makes of a kernel, counted on its IR: the inputs of the analytic model, and columns that the
// learned one sees beside the knobs.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/runtime/device.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kiln::tune {

// Of one launch.
struct Terms {
  double programs = 1;                     // as the grid has them
  double shared_programs = 1;              // after neighbours that share a product are counted as one (CPU)
  double busiest = 1;                      // of the busiest thread: such of the average size (CPU)
  double flops = 0;                        // tiles whole, padding included
  double useful_flops = 0;                 // of what tiles hold from inside of views; 0: not known
  double dot_flops = 0;                    // of these, in dots
  DType dot_type = DType::F32;             // of the dots' factors
  double reductions = 0;                   // values that reductions leave
  double read = 0, written = 0;            // bytes, every access
  double unique = 0;                       // bytes, each once
  double program_bytes = 0;                // that one program touches
  double tile_bytes = 0;                   // of the largest tile
  double scratch_bytes = 0;                // tiles that live in memory (CPU), or in shared memory (GPU)
  double registers = 0;                    // 32-bit words of all live tiles, a thread (GPU), estimated
  double warps = 0;                        // of a program (GPU)
  double rows = 0, columns = 0, depth = 0; // of a dot; 0: none
  bool row_like = false;                   // reductions and no dot

  static constexpr std::size_t column_count = 16;
  static const std::array<const char*, column_count>& column_names();
  std::array<float, column_count> columns_of() const; // logarithms
};

// Counts for one problem on one device. The kernel is recorded without a config, or with the one at hand
// where its recording reads sizes.
struct KernelCase {
  std::shared_ptr<const ir::Kernel> recorded;
  std::vector<LayoutClass> layouts;
  std::vector<std::optional<std::uint64_t>> words; // of the arguments
  std::vector<std::int64_t> grid;                  // where the launch gives it
};
// UserError where the compiler refuses the config before it makes code: the same check that a launch makes.
Terms count_terms(const KernelCase& kernel, const Config& config, Device device);

} // namespace kiln::tune
