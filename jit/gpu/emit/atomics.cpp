// Emits atomics: one access for each element, by the first thread that holds it.
//
// Order and scope become part of the instruction or of the compare-and-swap. Accesses of other threads of the
// block, before and after, are ordered by the barriers that touch() emits, through which release and acquire
// are cumulative (PTX ISA, "Memory consistency model").
#include <kiln/jit/emit/atomics.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

namespace {

// The result of `one` if it is wanted (null: always), and else zero.
Value* where_wanted(IRBuilder& b, Value* wanted, llvm::IntegerType* bits,
                    const std::function<Value*()>& one) {
  if (!wanted) return one();
  llvm::BasicBlock *before = b.GetInsertBlock(), *inside = nullptr;
  Value* taken = nullptr;
  emit::emit_if(b, wanted, [&] {
    taken = one();
    inside = b.GetInsertBlock();
  });
  llvm::PHINode* phi = b.CreatePHI(bits, 2);
  phi->addIncoming(llvm::Constant::getNullValue(bits), before);
  phi->addIncoming(taken, inside);
  return phi;
}

} // namespace

void KernelEmitter::emit_atomic(const ir::Op& op) {
  const ir::Value* result = op.result();
  const DType t = result->type.dtype;
  const bool swap = op.is(Opcode::AtomicCas), is_tile = result->type.is_tile(), used = uses_[result] > 0;
  const LinearLayout layout = is_tile ? layout_of(result) : default_layout(result->type, plan_.warps);
  const std::string_view kind = swap ? "cas" : op.text("kind");
  const emit::AtomicAccess how{
      .dtype = t,
      .order = emit::atomic_ordering(op.text("order", "acq_rel")),
      .scope = context_.getOrInsertSyncScopeID(machine_.scope_name(op.text("scope", "gpu"))),
      .fewest_bytes = 2,
      .swap = [&](Value* pointer, Value* wanted, Value* desired) {
        return machine_.swap_16_bits(b_, op.text("order", "acq_rel"), op.text("scope", "gpu"), pointer,
                                     wanted, desired);
      }};
  auto* bits = b_.getIntNTy(static_cast<unsigned>(size_of(t)) * 8);

  Values pointers = registers(op.operand(0), layout), first = registers(op.operand(1), layout), second, mask;
  if (swap) second = registers(op.operand(2), layout);
  if (op.mask()) mask = registers(op.mask(), layout);
  touch(*memory_touch(op));
  auto bits_of = [&](Value* v) { return emit::to_bits(b_, numbers_, v, t); };
  const Machine::Atomic instruction{kind, op.text("order", "acq_rel"), op.text("scope", "gpu"), t};
  const bool native = !swap && machine_.has_atomic(instruction);
  auto one = [&](std::size_t r) -> Value* { // returns the old bits
    if (swap) return emit::emit_compare_and_swap(b_, how, pointers[r], bits_of(first[r]), bits_of(second[r]));
    if (native) return machine_.atomic(b_, instruction, pointers[r], bits_of(first[r]));
    return emit::emit_read_modify_write(b_, numbers_, how, kind, pointers[r], first[r]);
  };

  Value* own = owner(layout);
  const std::uint64_t repeats = layout.redundant(in_register);
  auto wanted = [&](std::size_t r) {
    return both(both(inside_tile(layout, static_cast<int>(r), result->type), own),
                mask.empty() ? nullptr : mask[r]);
  };
  auto by_element = [&] {
    Values old;
    for (std::size_t r = 0; r < pointers.size(); ++r)
      old.push_back(r & repeats ? llvm::PoisonValue::get(bits)
                                : where_wanted(b_, wanted(r), bits, [&] { return one(r); }));
    return old;
  };
  // Two neighbours in one word are updated together if the thread updates all of its elements.
  Machine::Atomic of_two = instruction;
  of_two.elements = 2;
  Value* all = nullptr;
  if (!swap && machine_.has_atomic(of_two) && neighbours(op.operand(0), {}, layout, size_of(t)) > 1) {
    all = are_aligned(pointers, 2, 2 * size_of(t));
    for (std::size_t r = 0; r < pointers.size(); ++r)
      if (!(r & repeats)) all = both(all, wanted(r));
  }
  auto by_two = [&] {
    auto* word = b_.getIntNTy(2 * bits->getIntegerBitWidth());
    Values old;
    for (std::size_t r = 0; r < pointers.size(); r += 2) {
      if (r & repeats) {
        old.insert(old.end(), 2, llvm::PoisonValue::get(bits));
        continue;
      }
      Value* high = b_.CreateShl(b_.CreateZExt(bits_of(first[r + 1]), word), bits->getIntegerBitWidth());
      Value* before =
          machine_.atomic(b_, of_two, pointers[r], b_.CreateOr(b_.CreateZExt(bits_of(first[r]), word), high));
      old.push_back(b_.CreateTrunc(before, bits));
      old.push_back(b_.CreateTrunc(b_.CreateLShr(before, bits->getIntegerBitWidth()), bits));
    }
    return old;
  };
  Values old = either_way(all, by_two, by_element);
  for (Value*& raw : old)
    if (used) raw = emit::from_bits(b_, numbers_, raw, t);
  if (!used) return;
  for (std::size_t r = 0; r < old.size(); ++r)
    old[r] = old[r & ~repeats];
  if (own) { // threads that hold copies get the result from the first one
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
