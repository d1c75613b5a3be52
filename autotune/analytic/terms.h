// Declares Terms, the work of one launch (programs, flops, bytes), counted on the kernel's IR. The analytic
// model computes times from it, and the learned model uses it as columns.
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

// The work of one launch of a kernel with one config.
struct Terms {
  double programs = 1;                     // programs of the grid
  double shared_programs = 1;              // CPU: neighbours that share a product count as one
  double busiest = 1;                      // CPU: programs of average size on the busiest thread
  double flops = 0;                        // of whole tiles, padding included
  double useful_flops = 0;                 // of the parts of tiles inside of views; 0: unknown
  double dot_flops = 0;                    // the part of `flops` in dots
  DType dot_type = DType::F32;             // dtype of the dots' factors
  double reductions = 0;                   // number of values that reductions produce
  double read = 0, written = 0;            // bytes, counting every access
  double unique = 0;                       // bytes, counting each byte once
  double program_bytes = 0;                // bytes that one program accesses
  double tile_bytes = 0;                   // size of the largest tile
  double scratch_bytes = 0;                // tiles in memory (CPU) or in shared memory (GPU)
  double registers = 0;                    // GPU: estimated 32-bit words per thread of all live tiles
  double warps = 0;                        // GPU: warps per program
  double rows = 0, columns = 0, depth = 0; // of a dot; 0: there is none
  bool row_like = false;                   // has reductions and no dot

  static constexpr std::size_t column_count = 16;
  static const std::array<const char*, column_count>& column_names();
  std::array<float, column_count> columns_of() const; // as logarithms
};

// A kernel for one problem on one device. It was recorded without a config or, if the kernel reads sizes
// while it is recorded, with the config whose terms are counted.
struct KernelCase {
  std::shared_ptr<const ir::Kernel> recorded;
  std::vector<LayoutClass> layouts;
  std::vector<std::optional<std::uint64_t>> words; // the argument words of the launch
  std::vector<std::int64_t> grid;                  // if the launch gives the grid
};
// Counts the terms of a launch with this config. Throws UserError if the compiler rejects the config before
// it generates code, by the same check as a launch.
Terms count_terms(const KernelCase& kernel, const Config& config, Device device);

} // namespace kiln::tune
