// Plans the memory that the arguments of a launch need, and how the kernel uses it.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::tune {

// Memory of one or several arguments. Arguments that overlap in the application share a block.
struct Block {
  std::int64_t bytes = 0;
  std::int64_t misalignment = 0; // of the first byte, relative to 64
  DType dtype = DType::F32;      // dtype of the compared elements: that of the written argument
  bool written = false;          // by a parameter whose elements are not const
  bool read = false;             // read, possibly read, or its contents are given
};

struct MemoryPlan {
  struct Place { // the place of an argument; scalars have none
    int block = -1;
    std::int64_t begin = 0; // the argument's lowest byte in the block
    std::int64_t data = 0;  // the byte that its pointer points to
    std::int64_t bytes = 0;
    bool steers = false; // its contents decide on addresses or loops; see steering.h
  };
  std::vector<Block> blocks;
  std::vector<Place> places; // one per argument

  std::int64_t bytes() const; // of all blocks
  // Names the parameters of a block for messages, "parameter 2 (i32)", counted from 0. Of several that share
  // it, only those that may be written are named if any are.
  std::string name_of(std::size_t block, const std::vector<Argument>& arguments) const;
  // Returns the argument words of a launch with blocks at these addresses.
  std::vector<std::uint64_t> words(const std::vector<Argument>& arguments,
                                   const std::vector<std::uint64_t>& addresses) const;
};

// Throws UserError, which names the argument, if the arguments do not match the kernel's parameters or are
// too large.
MemoryPlan plan_memory(const std::vector<Argument>& arguments, const ir::Kernel& kernel);

} // namespace kiln::tune
