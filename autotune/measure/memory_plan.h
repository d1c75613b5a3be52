// Which memory the arguments of a launch need, and what the kernel does with it.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <vector>

namespace kiln::tune {

// Memory of one or several arguments (those that overlap in the application share a block).
struct Block {
  std::int64_t bytes = 0;
  std::int64_t misalignment = 0; // of its first byte, to 64
  DType dtype = DType::F32;      // of the elements that are compared: the written argument's
  bool written = false;          // by a parameter whose elements are not const
  bool read = false;             // or not known not to be, or its contents are given
};

struct MemoryPlan {
  struct Place { // of an argument; scalars have none
    int block = -1;
    std::int64_t begin = 0; // its lowest byte in the block
    std::int64_t data = 0;  // where its pointer points
    std::int64_t bytes = 0;
  };
  std::vector<Block> blocks;
  std::vector<Place> places; // of each argument

  std::int64_t bytes() const; // of all blocks
  // Arguments for a launch, with blocks at these addresses.
  std::vector<std::uint64_t> words(const std::vector<Argument>& arguments,
                                   const std::vector<std::uint64_t>& addresses) const;
};

// UserError if the arguments are not those of the kernel's parameters, saying which, or too large.
MemoryPlan plan_memory(const std::vector<Argument>& arguments, const ir::Kernel& kernel);

// The relative error that two right configs of the kernel may have in outputs of this dtype: that of the
// coarsest float that it computes with or stores. 0 for integers.
double tolerance_of(const ir::Kernel& kernel, DType output);

} // namespace kiln::tune
