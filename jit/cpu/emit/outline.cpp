// Extracts groups of parts with LLVM's CodeExtractor.
#include <kiln/jit/cpu/emit/outline.h>

#include <kiln/jit/cpu/tuning.h>

#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/Transforms/Utils/CodeExtractor.h>

#include <algorithm>

namespace kiln::cpu {

namespace {

using Blocks = llvm::SmallVector<llvm::BasicBlock*>;

// The blocks from `begin` to `end`, without `end`, in an order in which they can be reached.
Blocks blocks_between(llvm::BasicBlock* begin, llvm::BasicBlock* end) {
  Blocks blocks{begin};
  llvm::SmallPtrSet<const llvm::BasicBlock*, 32> seen{begin, end};
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (llvm::BasicBlock* next : llvm::successors(blocks[i]))
      if (seen.insert(next).second) blocks.push_back(next);
  return blocks;
}

std::size_t instructions_of(const Blocks& blocks) {
  std::size_t count = 0;
  for (const llvm::BasicBlock* block : blocks)
    count += block->size();
  return count;
}

void outline(llvm::Function& function, const Blocks& blocks) {
  llvm::DominatorTree dominators(function);
  const llvm::CodeExtractorAnalysisCache cache(function);
  llvm::CodeExtractor extractor(blocks, &dominators, false, nullptr, nullptr, nullptr, false, false, nullptr,
                                "part");
  if (!extractor.isEligible()) return;
  if (llvm::Function* part = extractor.extractCodeRegion(cache)) part->addFnAttr(llvm::Attribute::NoInline);
}

} // namespace

void outline_parts(llvm::Function& function, const std::vector<Parts>& regions, std::size_t most) {
  if (function.getInstructionCount() <= most) return;
  const std::size_t least = std::min(most, tuning::min_outlined_instructions);
  for (const Parts& parts : regions) {
    std::size_t begin = 0;
    for (std::size_t end = 1; end < parts.size(); ++end) {
      const Blocks blocks = blocks_between(parts[begin], parts[end]);
      if (instructions_of(blocks) < least) continue;
      outline(function, blocks);
      begin = end;
    }
  }
}

} // namespace kiln::cpu
