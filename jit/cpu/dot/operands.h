// Declares the operands of a product as its loops see them: each part in place, or as a packed copy.
//
//   A: rows in place, or packed
//   B: slivers of NR columns in place, or packed as [k][NR]
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// The parameters of the routine, in order. Strides that are known at compile time are constants.
struct Arguments {
  llvm::Value *a, *a_row_stride, *a_column_stride, *b, *b_row_stride, *b_column_stride;
  llvm::Value *c, *c_row_stride, *m, *n, *k, *accumulate, *scratch;
  llvm::Value *rounded = nullptr, *rounded_row_stride = nullptr; // only if the shape rounds
  llvm::Value* to_next_b;                                        // 0 unless the shape prefetches it

  Arguments(Builder& builder, const Plan& plan, llvm::Function* f);
};

// Rows of A, each of contiguous elements.
struct Rows {
  llvm::Value *pointer, *row_stride;
};

struct Panel {
  llvm::Value *pointer, *row_stride;
};

// A chunk of K: its first k and its extent; whether A and B are read in place; whether B is packed while the
// first rows of A are multiplied; and whether the products are added to C.
struct Chunk {
  llvm::Value *k0, *depth, *direct_a, *in_place_b, *packs_on_the_way, *adds;
};

class Operands {
public:
  // Creates the routines that pack.
  Operands(Builder& b, const Plan& plan, const Arguments& arguments);

  // i1: whether the operand is read in place.
  llvm::Value* a_in_place();
  llvm::Value* b_in_place();

  Rows rows_of_a(const Chunk& chunk, llvm::Value* i0, llvm::Value* height);
  llvm::Value* row_of(const Rows& rows, llvm::Value* i); // the address of row i

  // Packs those slivers of a group of columns that are neither read in place nor packed while multiplying,
  // and computes their corrections.
  void pack_slivers(const Chunk& chunk, llvm::Value* group, llvm::Value* group_end);
  Panel sliver_of_b(const Chunk& chunk, llvm::Value* group, llvm::Value* j, llvm::Value* width);
  // The address of the corrections of the sliver at column j, with which its sums begin.
  llvm::Value* corrections_of(llvm::Value* group, llvm::Value* j);

  // All rows of A as accumulator elements, for the outer products of few_rows.h.
  Rows wide_rows_of_a(llvm::Value* k0, llvm::Value* depth);

  // Addresses of elements of A, B and C.
  llvm::Value* at_a(llvm::Value* row, llvm::Value* column);
  llvm::Value* at_b(llvm::Value* row, llvm::Value* column);
  llvm::Value* at_c(llvm::Value* row, llvm::Value* column);
  llvm::Value* a_row_after(llvm::Value* first,
                           llvm::Value* rows); // the address of the row that is `rows` rows after `first`
  // The steps of the microkernel for `depth` elements of K: groups, including a short one. For AMX, rounded
  // up to whole tiles.
  llvm::Value* steps_of(llvm::Value* depth);
  llvm::Type* element(DType t); // some type of t's size, since only addresses are computed with it

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
