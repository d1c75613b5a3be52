// Emits atomic operations: one element after the other, or vectors of consecutive elements.
//
// A row of consecutive elements, such as one of `table.at(rows, columns).atomic_add(values)`, is updated in
// vectors. If plain loads and stores may update memory (plain_updates.cpp), a vector is loaded, combined and
// stored. Otherwise the elements of each aligned group of 8 or 16 bytes are swapped together, which takes as
// long as one element. Rows may repeat, and are updated one after the other.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/atomics.h>
#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>
#include <llvm/Analysis/VectorUtils.h>
#include <numeric>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

AtomicAccess access_of(const ir::Op& op) {
  AtomicAccess how{op.result()->type.dtype, atomic_ordering(op.text("order", "acq_rel"))};
  const std::string_view kind = op.text("kind");
  how.skips_unchanged = kind == "min" || kind == "max" || kind == "and" || kind == "or";
  return how;
}

// The most bytes that one instruction swaps; 0: only single elements are swapped. All CPUs with AVX swap 16.
int largest_swap(const Target& target, const DotTarget& kind) {
  if (!kind.x86) return 0;
  return target.vector_bytes >= 32 ? 16 : 8;
}

} // namespace

Value* KernelEmitter::emit_atomic_add(const AtomicAccess& how, Value* address, Value* operand) {
  if (is_integer(how.dtype))
    return b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, address, operand,
                              llvm::MaybeAlign(static_cast<std::uint64_t>(size_of(how.dtype))), how.order);
  return from_bits(b_, numbers_, emit_read_modify_write(b_, numbers_, how, "add", address, operand),
                   how.dtype);
}

void KernelEmitter::emit_atomic(const ir::Op& op) {
  flush();
  locate(op);
  const ir::Value* result = op.result();
  if (result->type.is_tile() && users_.count(result)) own_buffer(result);
  Value* plain = may_be_plain(op);
  if (!plain) return emit_updates(op, false);
  emit_if_else(b_, plain, [&] { emit_updates(op, true); }, [&] { emit_updates(op, false); });
  if (result->type.is_scalar()) // nothing uses it
    scalars_[result] = llvm::Constant::getNullValue(compute_type(context_, result->type.dtype));
}

void KernelEmitter::emit_updates(const ir::Op& op, bool plain) {
  const auto domain = extents_of(op.result()->type);
  int last = static_cast<int>(domain.size()) - 1;
  while (last >= 0 && domain[static_cast<std::size_t>(last)] == 1)
    --last;
  const bool joins = plain || 2 * size_of(op.result()->type.dtype) <= largest_swap(target_, dot_target_);
  if (op.is(Opcode::AtomicRmw) && joins && last >= 0 && passes::step_in_memory(op, last) == 1) {
    Root root{Root::Kind::Update, nullptr, &op};
    root.plain = plain;
    return emit_nest({root}, domain);
  }
  emit_each_element(domain, [&](Nest& nest, const Indices& at) { update(nest, op, at, plain); });
}

// Updates the vector or the element at `at`, and keeps the old values if something uses them.
void KernelEmitter::update(Nest& nest, const ir::Op& op, const Indices& at, bool plain) {
  locate(op);
  const ir::Value* result = op.result();
  Access access = pointer_access(nest, op, at);
  Value* mask = access.mask;
  Value* old = nullptr;
  if (mask && !is_vector(mask)) {
    access.mask = nullptr;
    llvm::BasicBlock *before = b_.GetInsertBlock(), *inside = nullptr;
    Value* taken = nullptr;
    emit_if(b_, mask, [&] {
      taken = update_access(nest, op, at, access, plain);
      inside = b_.GetInsertBlock();
    });
    nest.memo.clear(); // it has values of the branch
    llvm::PHINode* either = b_.CreatePHI(taken->getType(), 2);
    either->addIncoming(llvm::Constant::getNullValue(taken->getType()), before);
    either->addIncoming(taken, inside);
    old = either;
  } else {
    old = update_access(nest, op, at, access, plain);
  }
  if (result->type.is_scalar())
    scalars_[result] = old;
  else if (users_.count(result))
    store_buffer(nest, own_buffer(result), at, old);
}

// Returns the old values; those of lanes that are masked off are zero.
Value* KernelEmitter::update_access(Nest& nest, const ir::Op& op, const Indices& at, const Access& access,
                                    bool plain) {
  Value* operand = operand_element(nest, op.operand(1), at);
  if (nest.lanes == 1)
    return plain ? update_plainly(nest, op, at, access, operand)
                 : update_element(nest, op, at, access.address, operand);
  operand = widen(b_, operand, nest.lanes);
  const DType t = op.result()->type.dtype;
  const int size = size_of(t);
  const int bytes = std::min(nest.lanes * size, largest_swap(target_, dot_target_));
  if (plain && (!access.mask || (target_.avx512 && size >= 4)))
    return update_plainly(nest, op, at, access, operand);
  // Most vectors have no lane that is masked off. Others are updated lane by lane, or by masked accesses.
  Value* whole = b_.getTrue();
  if (access.mask) whole = b_.CreateAndReduce(access.mask);
  if (!plain) {
    Value* past = b_.CreateAnd(b_.CreatePtrToInt(access.address, b_.getInt64Ty()),
                               b_.getInt64(static_cast<std::uint64_t>(bytes - 1)));
    whole = b_.CreateAnd(whole, b_.CreateICmpEQ(past, b_.getInt64(0)));
  }
  Access unmasked = access;
  unmasked.mask = nullptr;
  llvm::BasicBlock *of_whole = nullptr, *of_lanes = nullptr;
  Value *by_whole = nullptr, *by_lanes = nullptr;
  emit_if_else(
      b_, whole,
      [&] {
        by_whole = plain ? update_plainly(nest, op, at, unmasked, operand)
                         : update_groups(op, access.address, operand, bytes / size);
        of_whole = b_.GetInsertBlock();
      },
      [&] {
        by_lanes = plain ? update_plainly(nest, op, at, access, operand)
                         : update_lanes(nest, op, at, access, operand);
        of_lanes = b_.GetInsertBlock();
      });
  llvm::PHINode* either = b_.CreatePHI(by_whole->getType(), 2);
  either->addIncoming(by_whole, of_whole);
  either->addIncoming(by_lanes, of_lanes);
  return either;
}

// Updates one element by an atomic operation: a compare-and-swap loop, except for integer adds and exchanges.
Value* KernelEmitter::update_element(Nest& nest, const ir::Op& op, const Indices& at, Value* address,
                                     Value* operand) {
  const AtomicAccess how = access_of(op);
  const DType t = how.dtype;
  if (op.is(Opcode::AtomicCas)) {
    Value* desired = operand_element(nest, op.operand(2), at);
    Value* before = emit_compare_and_swap(b_, how, address, to_bits(b_, numbers_, operand, t),
                                          to_bits(b_, numbers_, desired, t));
    return from_bits(b_, numbers_, before, t);
  }
  const std::string_view kind = op.text("kind");
  if (kind == "add") return emit_atomic_add(how, address, operand);
  const llvm::MaybeAlign align(static_cast<std::uint64_t>(size_of(t)));
  Value* bits = kind == "xchg" ? b_.CreateAtomicRMW(llvm::AtomicRMWInst::Xchg, address,
                                                    to_bits(b_, numbers_, operand, t), align, how.order)
                               : emit_read_modify_write(b_, numbers_, how, kind, address, operand);
  return from_bits(b_, numbers_, bits, t);
}

// Updates a vector of consecutive elements by atomic operations on groups of `lanes` elements, which must be
// aligned.
Value* KernelEmitter::update_groups(const ir::Op& op, Value* address, Value* operand, int lanes) {
  const int size = size_of(op.result()->type.dtype);
  Values olds;
  for (int first = 0; first < lanes_of(operand); first += lanes) {
    std::vector<int> group(static_cast<std::size_t>(lanes));
    std::iota(group.begin(), group.end(), first);
    Value* place =
        b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), address, static_cast<std::uint64_t>(first * size));
    olds.push_back(emit_joint_update(b_, numbers_, access_of(op), op.text("kind"), place,
                                     b_.CreateShuffleVector(operand, group)));
  }
  return llvm::concatenateVectors(b_, olds);
}

// Updates a vector of consecutive elements one after the other. The old values are poison if nothing uses
// them.
Value* KernelEmitter::update_lanes(Nest& nest, const ir::Op& op, const Indices& at, const Access& access,
                                   Value* operand) {
  const DType t = op.result()->type.dtype;
  const bool keep = users_.count(op.result()) != 0;
  Values start;
  if (keep) start.push_back(llvm::Constant::getNullValue(operand->getType()));
  Value* lanes = b_.getInt64(static_cast<std::uint64_t>(nest.lanes));
  auto loop = emit_loop(b_, b_.getInt64(0), lanes, b_.getInt64(1), start,
                        [&](Value* lane, const Values& carried, llvm::Instruction*) -> Values {
                          llvm::BasicBlock *before = b_.GetInsertBlock(), *inside = nullptr;
                          Value* mask =
                              access.mask ? b_.CreateExtractElement(access.mask, lane) : b_.getTrue();
                          Value* changed = nullptr;
                          emit_if(b_, mask, [&] {
                            Value* address = b_.CreateGEP(memory_type(context_, t), access.address, lane);
                            Value* old =
                                update_element(nest, op, at, address, b_.CreateExtractElement(operand, lane));
                            if (keep) changed = b_.CreateInsertElement(carried[0], old, lane);
                            inside = b_.GetInsertBlock();
                          });
                          if (!keep) return {};
                          llvm::PHINode* next = b_.CreatePHI(changed->getType(), 2);
                          next->addIncoming(carried[0], before);
                          next->addIncoming(changed, inside);
                          return {next};
                        });
  return keep ? loop.results[0] : llvm::PoisonValue::get(operand->getType());
}

} // namespace kiln::cpu
