// Splits the code of large kernels into functions, so that compile time stays linear in the code's size.
#pragma once

#include <cstddef>
#include <vector>

namespace llvm {
class BasicBlock;
class Function;
} // namespace llvm

namespace kiln::cpu {

// The blocks at which the parts of a region's code begin, in order. All of a part's code is dominated by its
// first block and enters the next part through that part's first block. The last block ends the last part.
using Parts = std::vector<llvm::BasicBlock*>;

// Moves parts of a function of more than `most` instructions, several parts at a time, into functions of
// their own. Instruction selection and register allocation take more than linear time in the size of a
// function. Smaller functions stay whole, because values that are computed before a part are passed to it
// through memory. Inner regions come before outer ones.
void outline_parts(llvm::Function& function, const std::vector<Parts>& regions, std::size_t most);

} // namespace kiln::cpu
