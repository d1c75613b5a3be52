// Declares the emitter of the loop over a nest's vector axis.
//
// The loop has up to three parts. The fast part goes as far as whole steps lie inside all views, and needs no
// masks. The guarded part handles the rest, with masks. Where every value past the ends of all views is the
// same, an out-of-bounds part computes it once.
#pragma once

#include <kiln/jit/cpu/emit/kernel_emitter.h>

namespace kiln::cpu {

Values flatten(const Accumulators& accumulators);
Accumulators unflatten(const Values& flat, const Accumulators& like);

// One vector of columns, and its running values down to the current row.
struct Columns {
  Indices at;
  Accumulators running;
};

class KernelEmitter::VectorLevel {
public:
  VectorLevel(KernelEmitter& emitter, Nest& nest, Indices& at);
  void emit();

private:
  int registers_of_step();
  void choose_width();
  void choose_chains();
  Accumulators step(llvm::Value* j, Accumulators accumulators, llvm::Instruction* preheader, bool guarded,
                    llvm::Value* tail);
  // columns.cpp
  std::vector<Columns> first_columns(int vectors);
  void advance_columns(std::vector<Columns>& columns, llvm::Value* r, int depth, llvm::Instruction* before);
  std::vector<Columns> reduced_columns(int vectors);
  void block_of_rows();
  llvm::Value* fast_part(llvm::Value* first, std::int64_t whole); // returns where it ended
  // Emits the fast part twice: with non-temporal stores for when `streams` holds, and with ordinary ones.
  llvm::Value* fast_parts(const Streaming& streams);
  void columns_before(llvm::Value* first);
  Accumulators chain(int k) const; // accumulators of chain k, from flat_
  Accumulators merged_chains();
  void narrow(Accumulators& total); // folds vectors of several registers to one register
  Accumulators guarded_part(llvm::Value* begin, llvm::Value* end, const Accumulators& so_far);
  llvm::Value* lanes_below_extent(llvm::Value* j); // null: all lanes
  llvm::Value* lanes_below(llvm::Value* end, llvm::Value* j);
  llvm::Value* guarded_end();
  // out_of_bounds.cpp
  bool all_same_out_of_bounds() const;
  llvm::Value* out_of_bounds_begin(llvm::Value* fast_end); // null: there is no such part
  Accumulators out_of_bounds_part(llvm::Value* begin, const Accumulators& so_far);
  Accumulators repeated(llvm::Value* begin, llvm::Value* end, const Accumulators& so_far);
  llvm::Value* fill_end(const Root& root, llvm::Value* end);
  void repeated_columns(llvm::Value* begin, llvm::Value* end);
  llvm::Value* unchanged(const Accumulators& before, const Accumulators& after);
  void finish(const Accumulators& total);
  // Calls f with each root that reduces, and with its index among the roots that carry values.
  template <class F> void each_reduction(F f) {
    std::size_t k = 0;
    for (const Root& root : nest_.roots) {
      if (root.kind == Root::Kind::Reduce) f(root, k);
      k += root.carries_values();
    }
  }
  llvm::ConstantInt* constant(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }

  KernelEmitter& e_;
  IRBuilder& b_;
  Nest& nest_;
  Indices& at_;
  const int outer_; // number of loops around this one
  const std::size_t axis_;
  const std::int64_t extent_;
  const bool down_columns_;     // the reduced axis is another one, whose loop is inside this loop
  bool carries_values_ = false; // some root reduces or scans
  bool scans_ = false;          // some root scans along this axis, one vector after the other
  bool all_simple_ = true;      // all roots that carry values combine with one operation that has an identity
  bool any_column_ = false;     // the fast part may end at any column, not only at multiples of a step
  int side_by_side_ = 1;        // vectors of columns that advance down the rows together
  bool hosts_;                  // a deferred row may be stored between iterations of this loop
  Accumulators initial_;        // initial accumulators of reductions along this axis
  Values flat_;                 // the accumulators of all chains, in one list
  std::int64_t chunk_ = 0, whole_ = 0; // elements of one step of all chains, and of all whole steps
};

} // namespace kiln::cpu
