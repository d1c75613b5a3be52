// Declares the microkernel's accesses to its tile of C: MR x NR elements, or fewer at the ends of C.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

class CTile {
public:
  using Sums = llvm::SmallVector<llvm::Value*, 32>; // vectors, row by row

  // The tile begins at `c`, where C has m rows and n columns. Reserves memory for a ragged tile.
  CTile(Builder& b, const Plan& plan, llvm::Value* c, llvm::Value* row_stride, llvm::Value* m,
        llvm::Value* n);

  void prefetch();
  // The sums so far: elements of C if `accumulate`, and otherwise `zeros`. Rows beyond m repeat the last one,
  // or are zero.
  Sums load(llvm::ArrayRef<llvm::Value*> zeros, llvm::Value* accumulate);
  // Stores the sums, or adds them to C if `accumulate`.
  void store(llvm::ArrayRef<llvm::Value*> sums, llvm::Value* accumulate);

private:
  void load_masked(Sums& sums);
  void load_by_element(Sums& sums);
  void store_whole(llvm::ArrayRef<llvm::Value*> sums, bool accumulate);
  void store_ragged(llvm::Value* accumulate);
  void store_ragged_row(llvm::Value* c_row, llvm::Value* spill_row, llvm::Value* accumulate);
  llvm::Value* row(llvm::Value* r);
  llvm::Value* spill_row(llvm::Value* r);
  llvm::Value* mask_of(int vector); // of the columns that exist
  llvm::Value* add(llvm::Value* x, llvm::Value* y);
  llvm::Constant* minus_zero();

  Builder& b_;
  const Plan& plan_;
  llvm::Value *c_, *row_stride_, *m_, *n_;
  llvm::Type *element_, *vector_;
  llvm::Align align_;
  llvm::Value* spill_;
};

} // namespace kiln::cpu::dot
