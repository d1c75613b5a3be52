// The factors of a product: which of their parts are read in place, and the copies of the others.
//
//   A: rows in place, or packed
//   B: slivers of NR columns in place, or packed as [k][NR]
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// The routine's parameters, in order. Strides that are known are constants.
struct Arguments {
  llvm::Value *a, *a_row_stride, *a_column_stride, *b, *b_row_stride, *b_column_stride;
  llvm::Value *c, *c_row_stride, *m, *n, *k, *accumulate, *scratch;
  llvm::Value *rounded = nullptr, *rounded_row_stride = nullptr; // of a shape that rounds

  Arguments(Builder& builder, const Plan& plan, llvm::Function* f);
};

// Of A; the columns of each are contiguous.
struct Rows {
  llvm::Value *pointer, *row_stride;
};

struct Panel {
  llvm::Value *pointer, *row_stride;
};

// Of K: where it begins, its extent, whether A and B are read in place, whether B is packed while the first
// rows of A are multiplied, and whether the products are added to C.
struct Chunk {
  llvm::Value *k0, *depth, *direct_a, *in_place_b, *packs_on_the_way, *adds;
};

class Operands {
public:
  // Makes the routines that pack.
  Operands(Builder& b, const Plan& plan, const Arguments& arguments);

  // i1, of the whole product.
  llvm::Value* a_in_place();
  llvm::Value* b_in_place();

  Rows rows_of_a(const Chunk& chunk, llvm::Value* i0, llvm::Value* height);
  llvm::Value* row_of(const Rows& rows, llvm::Value* i); // its address

  // Packs the slivers of a group of columns that are neither read in place nor packed on the way, and makes
  // their corrections.
  void pack_slivers(const Chunk& chunk, llvm::Value* group, llvm::Value* group_end);
  Panel sliver_of_b(const Chunk& chunk, llvm::Value* group, llvm::Value* j, llvm::Value* width);
  // Where the sums of the sliver at column j begin.
  llvm::Value* corrections_of(llvm::Value* group, llvm::Value* j);

  // All rows of A, few, as accumulator elements, for few_rows.h.
  Rows wide_rows_of_a(llvm::Value* k0, llvm::Value* depth);

  // Addresses in A, B and C, in elements.
  llvm::Value* at_a(llvm::Value* row, llvm::Value* column);
  llvm::Value* at_b(llvm::Value* row, llvm::Value* column);
  llvm::Value* at_c(llvm::Value* row, llvm::Value* column);
  llvm::Value* a_row_after(llvm::Value* first, llvm::Value* rows); // so many after that at `first`
  // What the microkernel counts: groups, a short one too; of tiles as many as fill them.
  llvm::Value* steps_of(llvm::Value* depth);
  llvm::Type* element(DType t); // any type of its size: only addresses are computed here

private:
  llvm::Value* groups_of(llvm::Value* rows);
  void zero_missing_groups(const Chunk& chunk, llvm::Value* group, llvm::Value* group_end);
  llvm::Type* panel_part();
  llvm::Value* in_scratch(std::int64_t offset);
  llvm::Value* packed_sliver(const Chunk& chunk, llvm::Value* group, llvm::Value* j, llvm::Value* row);
  Rows packed_rows(const Chunk& chunk, llvm::Value* first, llvm::Value* height);
  template <class Then, class Else> Rows either(llvm::Value* condition, Then&& one, Else&& other);

  Builder& b_;
  const Plan& plan_;
  const Arguments& x_;
  llvm::Function *pack_a_ = nullptr, *pack_wide_a_ = nullptr;
  llvm::Function *pack_b_ = nullptr, *corrections_ = nullptr;
};

} // namespace kiln::cpu::dot
