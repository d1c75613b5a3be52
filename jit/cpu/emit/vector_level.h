// The loop over a nest's vector axis, in up to three parts. The fast half goes as far as whole steps lie
// inside all views, without masks; the guarded half goes on, with masks; and where what lies past every
// view's end is the same everywhere, it is computed once.
#pragma once

#include <kiln/jit/cpu/emit/kernel_emitter.h>

namespace kiln::cpu {

Values flatten(const Accumulators& accumulators);
Accumulators unflatten(const Values& flat, const Accumulators& like);

// One vector of columns on the way down.
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
  llvm::Value* fast_half(); // where it ended
  // Past the cache where `streams` holds, and through it elsewhere.
  llvm::Value* fast_halves(llvm::Value* streams);
  Accumulators chain(int k) const; // one of flat_'s
  Accumulators merged_chains();
  void narrow(Accumulators& total); // to vectors of one register
  Accumulators guarded_half(llvm::Value* begin, llvm::Value* end, const Accumulators& so_far);
  llvm::Value* lanes_below_extent(llvm::Value* j); // null: all
  llvm::Value* guarded_end();
  // out_of_bounds.cpp
  bool all_same_out_of_bounds() const;
  llvm::Value* out_of_bounds_begin(llvm::Value* fast_end); // null: there is no such part
  Accumulators out_of_bounds_part(llvm::Value* begin, const Accumulators& so_far);
  Accumulators repeated(llvm::Value* begin, llvm::Value* end, const Accumulators& so_far);
  void repeated_columns(llvm::Value* begin, llvm::Value* end);
  llvm::Value* unchanged(const Accumulators& before, const Accumulators& after);
  void finish(const Accumulators& total);
  // Calls f with each root that reduces, and its number among those that run.
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
  const int outer_; // loops around this one
  const std::size_t axis_;
  const std::int64_t extent_;
  const bool down_columns_;            // what is reduced is another axis, inside of this loop
  bool carries_values_ = false;        // some root reduces or scans, along this axis or that one
  bool scans_ = false;                 // along this axis: one vector after the other
  bool all_simple_ = true;             // what runs is sums and the like, with an identity to begin with
  int side_by_side_ = 1;               // vectors of columns that go down together
  bool hosts_;                         // a deferred row may be stored meanwhile
  Accumulators initial_;               // of what is reduced along this axis
  Values flat_;                        // the accumulators of all chains
  std::int64_t chunk_ = 0, whole_ = 0; // elements of a step of all chains; of all such steps
};

} // namespace kiln::cpu
