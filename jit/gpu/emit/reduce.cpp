// Emits reductions as plan_reduction plans them: within threads, between lanes, between warps.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/emit/combine.h>
#include <kiln/jit/gpu/exchange/reduction.h>

#include <bit>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

// Emits the combine region for one element of each tile, with `a` before `b`.
Values KernelEmitter::combine(const ir::Op& op, const Values& a, const Values& b) {
  Values arguments = a;
  arguments.insert(arguments.end(), b.begin(), b.end());
  return emit::emit_combine(b_, numbers_, *op.region(), arguments, emit::keeps_wide(op),
                            [&](const ir::Value* v) { return scalar(v); });
}

// Shuffles a value of any width by shuffling 32-bit words.
Value* KernelEmitter::shuffle(Value* v, const std::function<Value*(Value*)>& word) {
  llvm::Type* type = v->getType();
  if (type->isPointerTy())
    return b_.CreateIntToPtr(shuffle(b_.CreatePtrToInt(v, b_.getInt64Ty()), word), type);
  const unsigned bits = static_cast<unsigned>(type->getPrimitiveSizeInBits());
  auto* integer = b_.getIntNTy(bits);
  Value* raw = b_.CreateBitCast(v, integer);
  if (bits <= 32)
    return b_.CreateBitCast(b_.CreateTrunc(word(b_.CreateZExt(raw, b_.getInt32Ty())), integer), type);
  const unsigned half = bits / 2;
  auto* part = b_.getIntNTy(half);
  Value* low = shuffle(b_.CreateTrunc(raw, part), word);
  Value* high = shuffle(b_.CreateTrunc(b_.CreateLShr(raw, half), part), word);
  return b_.CreateBitCast(
      b_.CreateOr(b_.CreateZExt(low, integer), b_.CreateShl(b_.CreateZExt(high, integer), half)), type);
}

// Combines two partial results, of which either may cover no element. The order matters if the combine region
// distinguishes its operands.
KernelEmitter::Partial KernelEmitter::merge(const ir::Op& op, const Partial& first, const Partial& second) {
  Partial result{combine(op, first.values, second.values), nullptr};
  if (!first.has && !second.has) return result;
  Value* has_first = first.has ? first.has : b_.getTrue();
  Value* has_second = second.has ? second.has : b_.getTrue();
  for (std::size_t k = 0; k < result.values.size(); ++k)
    result.values[k] = b_.CreateSelect(b_.CreateAnd(has_first, has_second), result.values[k],
                                       b_.CreateSelect(has_first, first.values[k], second.values[k]));
  result.has = b_.CreateOr(has_first, has_second);
  return result;
}

// The partial result of another lane.
KernelEmitter::Partial KernelEmitter::shuffled(const Partial& p, const std::function<Value*(Value*)>& word) {
  Partial result;
  for (Value* v : p.values)
    result.values.push_back(shuffle(v, word));
  if (p.has) result.has = shuffle(p.has, word);
  return result;
}

std::vector<KernelEmitter::Partial> KernelEmitter::convert(const std::vector<Partial>& parts,
                                                           const LinearLayout& have,
                                                           const LinearLayout& want) {
  std::vector<Partial> result(std::size_t{1} << want.in_bits(in_register));
  auto move = [&](auto&& member) {
    Values values;
    for (const Partial& p : parts)
      values.push_back(member(p));
    values = convert(values, have, want);
    for (std::size_t r = 0; r < result.size(); ++r)
      member(result[r]) = values[r];
  };
  for (Partial& p : result)
    p.values.resize(parts[0].values.size());
  for (std::size_t k = 0; k < parts[0].values.size(); ++k)
    move([k](auto& p) -> auto& { return p.values[k]; });
  if (parts[0].has) move([](auto& p) -> auto& { return p.has; });
  return result;
}

void KernelEmitter::emit_reduce(const ir::Op& op) {
  const int axis = static_cast<int>(op.integer("axis"));
  const ir::Type& type = op.operand(0)->type;
  const LinearLayout layout = layout_of(op.operand(0));
  const Reduction plan = plan_reduction(layout, axis, type.element_bytes());
  const auto simple = emit::simple_combine(op);

  std::vector<Values> elements;
  for (const ir::Value* v : op.operands)
    elements.push_back(registers(v, layout));
  std::vector<Partial> parts;
  for (std::size_t r = 0; r < elements[0].size(); ++r) {
    Partial one;
    for (const Values& tile : elements)
      one.values.push_back(tile[r]);
    if (Value* real = inside_tile(layout, static_cast<int>(r), type)) {
      if (simple)
        one.values[0] = b_.CreateSelect(real, one.values[0],
                                        emit::identity(context_, *simple, op.operand(0)->type.dtype));
      else
        one.has = real;
    }
    parts.push_back(std::move(one));
  }

  auto in_thread = [&](const std::vector<Reduction::Pair>& pairs, const std::vector<int>& holder) {
    for (const auto& [into, from] : pairs)
      parts[static_cast<std::size_t>(into)] =
          merge(op, parts[static_cast<std::size_t>(into)], parts[static_cast<std::size_t>(from)]);
    std::vector<Partial> kept;
    for (int r : holder)
      kept.push_back(parts[static_cast<std::size_t>(r)]);
    parts = std::move(kept);
  };
  in_thread(plan.in_thread, plan.holder);
  for (const Reduction::LaneStep& step : plan.lanes) {
    std::vector<Partial> next;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      Partial own = parts[r];
      Partial other = shuffled(parts[r ^ static_cast<std::size_t>(step.register_flip)],
                               [&](Value* word) { return machine_.shuffle_xor(b_, word, step.lane_mask); });
      // If the combine region distinguishes its operands (by taking the first of equal ones, say), it must
      // see them in the same order in all lanes, or the results of lanes would differ.
      if (!simple) order_by_lane(own, other, std::bit_floor(static_cast<unsigned>(step.lane_mask)));
      next.push_back(merge(op, own, other));
    }
    parts = std::move(next);
  }
  if (plan.warps) {
    parts = convert(parts, plan.warps->partial, plan.warps->gathered);
    in_thread(plan.warps->in_thread, plan.warps->holder);
  }

  for (std::size_t k = 0; k < op.results.size(); ++k) {
    const ir::Value* result = op.result(static_cast<int>(k));
    Values kept;
    for (const Partial& p : parts)
      kept.push_back(emit::keeps_wide(op) ? emit::round_to(b_, numbers_, p.values[k], result->type.dtype)
                                          : p.values[k]);
    if (result->type.is_scalar()) {
      scalars_[result] = kept[0];
      continue;
    }
    const LinearLayout* planned = plan_.find(result);
    if (planned && *planned != plan.result)
      define(result, *planned, convert(kept, plan.result, *planned));
    else
      define(result, plan.result, kept);
  }
}

// Swaps both in the lanes whose number has this bit.
void KernelEmitter::order_by_lane(Partial& own, Partial& other, unsigned bit) {
  Value* second = b_.CreateICmpNE(b_.CreateAnd(lane_, bit), b_.getInt32(0));
  auto swap = [&](Value*& a, Value*& b) {
    Value* low = b_.CreateSelect(second, b, a);
    b = b_.CreateSelect(second, a, b);
    a = low;
  };
  for (std::size_t k = 0; k < own.values.size(); ++k)
    swap(own.values[k], other.values[k]);
  if (own.has) swap(own.has, other.has);
}

} // namespace kiln::gpu
