// Atomics: one access for each element, by the first thread that holds it.
//
// Order and scope go into the instruction or the compare-and-swap. What other threads of the block wrote
// before and read after is ordered by the barriers that touch() places, through which release and acquire are
// cumulative (PTX ISA, "Memory consistency model").
#include <kiln/jit/emit/atomics.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

void KernelEmitter::emit_atomic(const ir::Op& op) {
  const ir::Value* result = op.result();
  const DType t = result->type.dtype;
  const bool swap = op.is(Opcode::AtomicCas), is_tile = result->type.is_tile(), used = uses_[result] > 0;
  const LinearLayout layout = is_tile ? layout_of(result) : default_layout(result->type, plan_.warps);
  const std::string_view kind = swap ? "cas" : op.text("kind");
  const emit::AtomicAccess how{t, emit::atomic_ordering(op.text("order", "acq_rel")),
                               context_.getOrInsertSyncScopeID(machine_.scope_name(op.text("scope", "gpu")))};
  llvm::Type* bits = b_.getIntNTy(static_cast<unsigned>(size_of(t)) * 8);

  Values pointers = registers(op.operand(0), layout), first = registers(op.operand(1), layout), second, mask;
  if (swap) second = registers(op.operand(2), layout);
  if (op.mask()) mask = registers(op.mask(), layout);
  touch(*memory_touch(op));
  auto bits_of = [&](Value* v) { return emit::to_bits(b_, numbers_, v, t); };
  auto one = [&](std::size_t r) -> Value* { // the bits before
    if (swap) return emit::emit_compare_and_swap(b_, how, pointers[r], bits_of(first[r]), bits_of(second[r]));
    if (Value* native = machine_.atomic(b_, {kind, op.text("order", "acq_rel"), op.text("scope", "gpu"), t},
                                        pointers[r], bits_of(first[r])))
      return native;
    return emit::emit_read_modify_write(b_, numbers_, how, kind, pointers[r], first[r]);
  };

  Value* own = owner(layout);
  const std::uint64_t repeats = layout.redundant(in_register);
  Values old;
  for (std::size_t r = 0; r < pointers.size(); ++r) {
    if (r & repeats) {
      old.push_back(nullptr);
      continue;
    }
    Value* wanted = both(both(inside_tile(layout, static_cast<int>(r), result->type), own),
                         mask.empty() ? nullptr : mask[r]);
    Value* raw = nullptr;
    if (!wanted) {
      raw = one(r);
    } else {
      llvm::BasicBlock* before = b_.GetInsertBlock();
      llvm::BasicBlock* inside = nullptr;
      Value* taken = nullptr;
      emit::emit_if(b_, wanted, [&] {
        taken = one(r);
        inside = b_.GetInsertBlock();
      });
      llvm::PHINode* phi = b_.CreatePHI(bits, 2);
      phi->addIncoming(llvm::Constant::getNullValue(bits), before);
      phi->addIncoming(taken, inside);
      raw = phi;
    }
    old.push_back(used ? emit::from_bits(b_, numbers_, raw, t) : raw);
  }
  if (!used) return;
  for (std::size_t r = 0; r < old.size(); ++r)
    if (!old[r]) old[r] = old[r & ~repeats];
  if (own) { // the threads that hold copies learn it from the first
    auto number = [&](int reg) {
      Value* flat = b_.getInt32(0);
      int shift = 0;
      for (std::size_t a = 0; a < layout.outs().size(); ++a) {
        flat = b_.CreateOr(flat, b_.CreateShl(coordinate(layout, reg, static_cast<int>(a)),
                                              static_cast<std::uint64_t>(shift)));
        shift += layout.out_bits(axis_name(static_cast<int>(a)));
      }
      return flat;
    };
    old = exchange(old, layout, number, layout, number, std::int64_t{1} << layout.out_bits(),
                   old[0]->getType());
  }
  if (is_tile)
    define(result, layout, old);
  else
    scalars_[result] = old[0];
}

} // namespace kiln::gpu
