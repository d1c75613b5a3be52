// Emits the plans of conversions between layouts, and reshapes.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {

using llvm::Value;

// Emits the computation of a thread function.
Value* KernelEmitter::thread_number(const ThreadFunction& f) {
  Value* result = b_.getInt32(f.constant);
  for (const auto* columns : {&f.lane, &f.warp}) {
    Value* index = columns == &f.lane ? lane_ : warp_;
    for (std::size_t bit = 0; bit < columns->size();) {
      const std::uint32_t column = (*columns)[bit];
      std::size_t run = 1; // bits that stay neighbours move together
      if (std::has_single_bit(column))
        while (bit + run < columns->size() && (*columns)[bit + run] == column << run)
          ++run;
      if (column != 0) {
        Value* bits = b_.CreateAnd(b_.CreateLShr(index, bit), (std::uint64_t{1} << run) - 1);
        result = b_.CreateXor(result, b_.CreateMul(bits, b_.getInt32(column)));
      }
      bit += run;
    }
  }
  return result;
}

// values[r ^ flip] in each thread: for each bit that the flip may have, pairs of registers are swapped in
// threads where it is set.
Values KernelEmitter::flipped(Values values, const ThreadFunction& flip) {
  Value* number = flip.is_constant() ? nullptr : thread_number(flip);
  for (std::size_t bit = 1; bit <= flip.bits(); bit *= 2) {
    if (!(flip.bits() & bit) && !(flip.constant & bit)) continue;
    Value* swap = number ? b_.CreateICmpNE(b_.CreateAnd(number, bit), b_.getInt32(0))
                         : b_.getInt1((flip.constant & bit) != 0);
    Values next(values.size());
    for (std::size_t r = 0; r < values.size(); ++r)
      next[r] = b_.CreateSelect(swap, values[r ^ bit], values[r]);
    values = std::move(next);
  }
  return values;
}

Values KernelEmitter::emit_plan(const WarpShuffles& plan, const Values& from) {
  const Values offer = flipped(from, plan.source_flip);
  Value* source = thread_number(plan.source_lane);
  const auto rounds = static_cast<std::size_t>(plan.rounds);
  std::vector<Values> got(rounds, Values(plan.steps.size() / rounds)); // by round, then slot
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const WarpShuffles::Step& step = plan.steps[s];
    Value* offered = offer[static_cast<std::size_t>(step.offered)];
    Value*& taken = got[s % rounds][s / rounds];
    if (!step.moves) {
      taken = offered;
      continue;
    }
    Value* lane = b_.CreateXor(source, b_.getInt32(static_cast<std::uint32_t>(step.lane_flip)));
    taken = shuffle(offered, [&](Value* word) { return machine_.shuffle_from(b_, word, lane); });
  }
  // Select the round that each thread keeps, then the slot of each register.
  Values kept = got[0];
  if (rounds > 1) {
    Value* round = thread_number(plan.kept_round);
    for (std::size_t r = 1; r < rounds; ++r)
      for (std::size_t slot = 0; slot < kept.size(); ++slot)
        kept[slot] = b_.CreateSelect(b_.CreateICmpEQ(round, b_.getInt32(static_cast<std::uint32_t>(r))),
                                     got[r][slot], kept[slot]);
  }
  kept = flipped(kept, plan.slot_flip);
  Values result;
  for (int slot : plan.slot_of)
    result.push_back(kept[static_cast<std::size_t>(slot)]);
  return result;
}

namespace {

// Shared memory holds predicates as bytes and pointers as integers.
llvm::Type* stored_type(IRBuilder& b, llvm::Type* type) {
  return type->isIntegerTy(1) ? b.getInt8Ty() : type->isPointerTy() ? b.getInt64Ty() : type;
}

Value* as_stored(IRBuilder& b, Value* v) {
  llvm::Type* stored = stored_type(b, v->getType());
  return stored == v->getType()        ? v
         : v->getType()->isPointerTy() ? b.CreatePtrToInt(v, stored)
                                       : b.CreateZExt(v, stored);
}

Value* from_stored(IRBuilder& b, Value* v, llvm::Type* type) {
  return v->getType() == type ? v : type->isPointerTy() ? b.CreateIntToPtr(v, type) : b.CreateTrunc(v, type);
}

} // namespace

// The address of an access, where `own` is the part of the offset that the thread decides. If both parts have
// no bit in common they are added, which folds into the instruction.
Value* KernelEmitter::exchanged_place(const ThreadFunction& thread, Value* own, std::int64_t shared,
                                      std::uint32_t offset) {
  Value* place = (thread.bits() | thread.constant) & offset ? b_.CreateXor(own, b_.getInt32(offset))
                                                            : b_.CreateAdd(own, b_.getInt32(offset));
  return b_.CreateGEP(b_.getInt8Ty(), shared_pointer(shared), b_.CreateZExt(place, b_.getInt64Ty()));
}

// Emits the stores of one pass.
void KernelEmitter::store_exchanged(const SharedExchange& plan, std::int64_t shared, const Values& from,
                                    int pass) {
  const std::size_t stores = plan.stores.size() / static_cast<std::size_t>(plan.passes);
  store_exchanged(plan, shared, from,
                  std::span(plan.stores).subspan(static_cast<std::size_t>(pass) * stores, stores));
}

void KernelEmitter::store_exchanged(const SharedExchange& plan, std::int64_t shared, const Values& from,
                                    std::span<const SharedExchange::Access> stores) {
  if (stores.empty()) return;
  llvm::Type* stored = stored_type(b_, from[static_cast<std::size_t>(stores[0].registers[0])]->getType());
  const std::uint64_t size = module_.getDataLayout().getTypeStoreSize(stored);
  Value* loud = b_.CreateAnd(b_.CreateICmpEQ(b_.CreateAnd(lane_, plan.silent.lanes), b_.getInt32(0)),
                             b_.CreateICmpEQ(b_.CreateAnd(warp_, plan.silent.warps), b_.getInt32(0)));
  Value* own = thread_number(plan.store_offset);
  auto store_all = [&] {
    for (const SharedExchange::Access& access : stores) {
      const int count = static_cast<int>(access.registers.size());
      auto element = [&](int p) {
        return as_stored(b_, from[static_cast<std::size_t>(access.registers[static_cast<std::size_t>(p)])]);
      };
      Value* v = count == 1 ? element(0) : llvm::PoisonValue::get(emit::lanes_type(stored, count));
      for (int p = 0; count > 1 && p < count; ++p)
        v = b_.CreateInsertElement(v, element(p), static_cast<std::uint64_t>(p));
      b_.CreateAlignedStore(v, exchanged_place(plan.store_offset, own, shared, access.offset),
                            llvm::Align(size * static_cast<std::uint64_t>(count)));
    }
  };
  if (plan.silent == Copies{.registers = plan.silent.registers})
    store_all();
  else
    emit::emit_if(b_, loud, store_all);
}

Values KernelEmitter::emit_plan(const SharedExchange& plan, const Values& from) {
  llvm::Type *type = from[0]->getType(), *stored = stored_type(b_, type);
  const std::int64_t shared = allocate_shared(plan.bytes);
  const Touch writing{
      .kind = Touch::Kind::Shared, .write = true, .begin = shared, .end = shared + plan.bytes};
  const Touch reading{.kind = Touch::Kind::Shared, .begin = shared, .end = shared + plan.bytes};
  const std::uint64_t size = module_.getDataLayout().getTypeStoreSize(stored);
  Value* own = thread_number(plan.load_offset);
  Values loaded(plan.copy_of.size(), nullptr);
  const std::size_t loads = plan.loads.size() / static_cast<std::size_t>(plan.passes);
  for (int pass = 0; pass < plan.passes; ++pass) {
    touch(writing);
    store_exchanged(plan, shared, from, pass);
    if (plan.within_warp)
      exchange_in_warp(reading);
    else
      touch(reading);
    const std::size_t begin = static_cast<std::size_t>(pass) * loads;
    for (std::size_t l = begin; l < begin + loads; ++l) {
      const SharedExchange::Access& access = plan.loads[l];
      const int count = static_cast<int>(access.registers.size());
      Value* v = b_.CreateAlignedLoad(emit::lanes_type(stored, count),
                                      exchanged_place(plan.load_offset, own, shared, access.offset),
                                      llvm::Align(size * static_cast<std::uint64_t>(count)));
      for (int p = 0; p < count; ++p)
        loaded[static_cast<std::size_t>(access.registers[static_cast<std::size_t>(p)])] =
            from_stored(b_, count == 1 ? v : b_.CreateExtractElement(v, static_cast<std::uint64_t>(p)), type);
    }
  }
  Values result;
  for (int r : plan.copy_of)
    result.push_back(loaded[static_cast<std::size_t>(r)]);
  return result;
}

Values KernelEmitter::convert(const Values& from, const LinearLayout& have, const LinearLayout& want) {
  // Predicates take one byte, and pointers eight.
  llvm::Type* type = from[0]->getType();
  const int bytes =
      type->isPointerTy() ? 8 : std::max(1, static_cast<int>(type->getPrimitiveSizeInBits()) / 8);
  constexpr std::int64_t most_scratch = 32 << 10;
  const Conversion plan = plan_conversion(have, want, bytes, most_scratch);
  if (std::holds_alternative<Nothing>(plan)) return from;
  if (auto* shuffles = std::get_if<WarpShuffles>(&plan)) return emit_plan(*shuffles, from);
  if (auto* exchanged = std::get_if<SharedExchange>(&plan)) return emit_plan(*exchanged, from);
  Values result;
  for (int r : std::get<RegisterMoves>(plan).source)
    result.push_back(from[static_cast<std::size_t>(r)]);
  return result;
}

// Exchanges elements through shared memory by number. The first place that holds an element writes it at the
// number that `written` gives, and all places of `want` read at the number that `read` gives. Numbers are
// below `elements`.
Values KernelEmitter::exchange(const Values& from, const LinearLayout& have,
                               const std::function<Value*(int)>& written, const LinearLayout& want,
                               const std::function<Value*(int)>& read, std::int64_t elements,
                               llvm::Type* type) {
  llvm::Type* stored = type->isIntegerTy(1) ? b_.getInt8Ty() : type;
  const std::int64_t size =
      type->isPointerTy()
          ? 8
          : std::max<std::int64_t>(1, static_cast<std::int64_t>(stored->getPrimitiveSizeInBits()) / 8);
  const std::int64_t bytes = size * elements;
  const std::int64_t shared = allocate_shared(bytes);
  auto place = [&](Value* number) {
    return b_.CreateGEP(stored, shared_pointer(shared), b_.CreateZExt(number, b_.getInt64Ty()));
  };
  touch({.kind = Touch::Kind::Shared, .write = true, .begin = shared, .end = shared + bytes});
  const std::uint64_t repeats = have.redundant(in_register);
  auto store_all = [&] {
    for (std::size_t r = 0; r < from.size(); ++r) {
      if (r & repeats) continue;
      Value* v = stored == type ? from[r] : b_.CreateZExt(from[r], stored);
      b_.CreateStore(v, place(written(static_cast<int>(r))));
    }
  };
  if (Value* first = owner(have))
    emit::emit_if(b_, first, store_all);
  else
    store_all();
  touch({.kind = Touch::Kind::Shared, .begin = shared, .end = shared + bytes});
  Values result;
  for (int r = 0; r < 1 << want.in_bits(in_register); ++r) {
    Value* v = b_.CreateLoad(stored, place(read(r)));
    result.push_back(stored == type ? v : b_.CreateTrunc(v, type));
  }
  return result;
}

// The row-major number of a register's element. Padding has no number of its own, and gets the one after the
// last element.
std::function<Value*(int)> KernelEmitter::row_major(const LinearLayout& layout, const ir::Type& type) {
  return [this, layout, &type](int reg) {
    Value* flat = b_.getInt32(0);
    for (std::size_t a = 0; a < type.shape.size(); ++a) {
      auto extent = static_cast<std::uint32_t>(type.shape[a].value());
      flat =
          b_.CreateAdd(b_.CreateMul(flat, b_.getInt32(extent)), coordinate(layout, reg, static_cast<int>(a)));
    }
    Value* real = inside_tile(layout, reg, type);
    return real ? b_.CreateSelect(real, flat, b_.getInt32(static_cast<std::uint32_t>(type.numel()))) : flat;
  };
}

// Makes padding zero. Many threads may then write it to one place: all write the same value, so that it does
// not matter which comes last.
void KernelEmitter::clear_padding(Values& values, const LinearLayout& layout, const ir::Type& type) {
  for (std::size_t r = 0; r < values.size(); ++r)
    if (Value* real = inside_tile(layout, static_cast<int>(r), type))
      values[r] = b_.CreateSelect(real, values[r], llvm::Constant::getNullValue(values[r]->getType()));
}

// A reshape keeps elements in row-major order. If not all extents are powers of two, they go through shared
// memory by their row-major numbers.
void KernelEmitter::emit_reshape(const ir::Op& op) {
  const ir::Value *from = op.operand(0), *to = op.result();
  const LinearLayout want = layout_of(to);
  if (auto inner = reshaped_layout(want, to->type, from->type))
    return define(to, want, registers(from, *inner));
  const LinearLayout have = layout_of(from);
  Values values = registers(from, have);
  clear_padding(values, have, from->type);
  define(to, want,
         exchange(values, have, row_major(have, from->type), want, row_major(want, to->type),
                  to->type.numel() + 1, values[0]->getType()));
}

} // namespace kiln::gpu
