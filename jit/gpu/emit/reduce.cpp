// Reductions: inside a thread, across the lanes of a warp, across warps through shared memory.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/emit/combine.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

namespace {

// The bits of an input side that walk along `axis` and repeat nothing.
std::uint64_t bits_along(const LinearLayout& layout, const char* side, int axis) {
  std::uint64_t bits = 0;
  for (int i = 0; i < layout.in_bits(side); ++i)
    if (layout.basis(side, i, axis_name(axis)) != 0) bits |= std::uint64_t{1} << i;
  return bits & ~layout.redundant(side);
}

} // namespace

// The combine region on one element of each tile: a first, then b.
Values KernelEmitter::combine(const ir::Op& op, const Values& a, const Values& b) {
  Values arguments = a;
  arguments.insert(arguments.end(), b.begin(), b.end());
  return cpu::emit_combine(b_, numbers_, *op.region(), arguments, cpu::keeps_wide(op),
                           [&](const ir::Value* v) { return scalar(v); });
}

// A shuffle of 32-bit words, for a value of any width.
Value* KernelEmitter::shuffle(Value* v, const std::function<Value*(Value*)>& word) {
  llvm::Type* type = v->getType();
  if (type->isPointerTy())
    return b_.CreateIntToPtr(shuffle(b_.CreatePtrToInt(v, b_.getInt64Ty()), word), type);
  const unsigned bits = static_cast<unsigned>(type->getPrimitiveSizeInBits());
  auto* integer = b_.getIntNTy(bits);
  Value* raw = b_.CreateBitCast(v, integer);
  if (bits <= 32)
    return b_.CreateBitCast(b_.CreateTrunc(word(b_.CreateZExt(raw, b_.getInt32Ty())), integer), type);
  Value* low = word(b_.CreateTrunc(raw, b_.getInt32Ty()));
  Value* high = word(b_.CreateTrunc(b_.CreateLShr(raw, 32), b_.getInt32Ty()));
  return b_.CreateBitCast(
      b_.CreateOr(b_.CreateZExt(low, integer), b_.CreateShl(b_.CreateZExt(high, integer), 32)), type);
}

void KernelEmitter::emit_reduce(const ir::Op& op) {
  const int axis = static_cast<int>(op.integer("axis"));
  const ir::Type& type = op.operand(0)->type;
  const LinearLayout layout = reducible_layout(layout_of(op.operand(0)), type, axis, plan_.warps);
  const auto simple = cpu::simple_combine(op);
  const std::size_t tiles = op.operands.size();

  // One partial result: its values, and whether there is any (null: there is).
  struct Partial {
    Values values;
    Value* has = nullptr;
  };
  auto merge = [&](const Partial& a, const Partial& b) {
    Partial result{combine(op, a.values, b.values), nullptr};
    if (!a.has && !b.has) return result;
    Value *has_a = a.has ? a.has : b_.getTrue(), *has_b = b.has ? b.has : b_.getTrue();
    for (std::size_t k = 0; k < tiles; ++k)
      result.values[k] = b_.CreateSelect(b_.CreateAnd(has_a, has_b), result.values[k],
                                         b_.CreateSelect(has_a, a.values[k], b.values[k]));
    result.has = b_.CreateOr(has_a, has_b);
    return result;
  };

  // In each thread, a partial for each register of the result.
  std::vector<Values> elements;
  for (const ir::Value* v : op.operands)
    elements.push_back(registers(v, layout));
  const std::uint64_t inside = bits_along(layout, in_register, axis);
  const std::uint64_t repeats = layout.redundant(in_register);
  std::vector<Partial> partials;
  std::vector<int> representatives; // the register whose other coordinates the partial has
  for (int r = 0; r < 1 << layout.in_bits(in_register); ++r) {
    const auto bits = static_cast<std::uint64_t>(r);
    if (bits & repeats) continue;
    Partial one;
    for (const Values& tile : elements)
      one.values.push_back(tile[bits]);
    if (Value* real = inside_tile(layout, r, type)) {
      if (simple)
        one.values[0] =
            b_.CreateSelect(real, one.values[0], cpu::identity(context_, *simple, op.operand(0)->type.dtype));
      else
        one.has = real;
    }
    auto at = std::find(representatives.begin(), representatives.end(), static_cast<int>(bits & ~inside));
    if (at == representatives.end()) {
      representatives.push_back(r);
      partials.push_back(one);
    } else {
      Partial& sum = partials[static_cast<std::size_t>(at - representatives.begin())];
      sum = merge(sum, one);
    }
  }

  // Across lanes: butterflies, after which every lane knows.
  const std::uint64_t lanes = bits_along(layout, in_lane, axis);
  auto shuffled = [&](Value* v, int mask) {
    return shuffle(v, [&](Value* word) { return machine_.shuffle_xor(b_, word, mask); });
  };
  auto order_by_lane = [&](Partial& own, Partial& other, int bit) {
    Value* second = b_.CreateICmpNE(b_.CreateAnd(lane_, std::uint64_t{1} << bit), b_.getInt32(0));
    auto swap = [&](Value*& a, Value*& b) {
      Value* low = b_.CreateSelect(second, b, a);
      b = b_.CreateSelect(second, a, b);
      a = low;
    };
    for (std::size_t k = 0; k < tiles; ++k)
      swap(own.values[k], other.values[k]);
    if (own.has) swap(own.has, other.has);
  };
  for (int i = 0; i < layout.in_bits(in_lane); ++i) {
    if (!(lanes >> i & 1)) continue;
    for (Partial& partial : partials) {
      Partial other;
      for (Value* v : partial.values)
        other.values.push_back(shuffled(v, 1 << i));
      if (partial.has) other.has = shuffled(partial.has, 1 << i);
      // A combine that tells its operands apart (the first of equal ones, say) must see them in one order in
      // all lanes, or lanes would disagree.
      if (!simple) order_by_lane(partial, other, i);
      partial = merge(partial, other);
    }
  }

  // Across warps: each writes its partials, and reads those of all.
  const std::uint64_t warps = bits_along(layout, in_warp, axis);
  const LinearLayout rest = layout.without_out(axis_name(axis));
  if (warps != 0) {
    const int parts = 1 << std::popcount(warps);
    const std::int64_t results = std::int64_t{1} << rest.out_bits();
    // The number of this warp among those that share a result.
    Value* part = b_.getInt32(0);
    for (int i = 0, at = 0; i < layout.in_bits(in_warp); ++i)
      if (warps >> i & 1)
        part = b_.CreateOr(part,
                           b_.CreateShl(b_.CreateAnd(b_.CreateLShr(warp_, static_cast<std::uint64_t>(i)), 1),
                                        static_cast<std::uint64_t>(at++)));
    // One writer for each partial: the first lane of those that know it, the first of repeating warps.
    const std::uint64_t other_lanes = lanes | rest.redundant(in_lane);
    const std::uint64_t other_warps = rest.redundant(in_warp) & ~warps;
    Value* writes = b_.CreateAnd(b_.CreateICmpEQ(b_.CreateAnd(lane_, other_lanes), b_.getInt32(0)),
                                 b_.CreateICmpEQ(b_.CreateAnd(warp_, other_warps), b_.getInt32(0)));
    // A result's number: its coordinates side by side.
    auto number = [&](int reg) {
      Value* flat = b_.getInt32(0);
      int shift = 0;
      for (const auto& d : rest.outs()) {
        int a = 0;
        while (axis_name(a) != d.name)
          ++a;
        flat = b_.CreateOr(flat, b_.CreateShl(coordinate(layout, reg, a), static_cast<std::uint64_t>(shift)));
        shift += d.bits;
      }
      return flat;
    };
    const bool flags = partials[0].has != nullptr;
    std::vector<std::int64_t> starts;
    std::vector<llvm::Type*> types;
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < tiles + (flags ? 1 : 0); ++k) {
      llvm::Type* t = k < tiles ? partials[0].values[k]->getType() : partials[0].has->getType();
      if (t->isIntegerTy(1)) t = b_.getInt8Ty();
      types.push_back(t);
      starts.push_back(bytes);
      bytes +=
          results * parts *
          static_cast<std::int64_t>(std::max(1u, static_cast<unsigned>(t->getPrimitiveSizeInBits()) / 8));
      bytes = (bytes + 15) / 16 * 16;
    }
    const std::int64_t shared = allocate_shared(bytes);
    touch({.kind = Touch::Kind::Shared, .write = true, .op = &op, .begin = shared, .end = shared + bytes});
    auto address = [&](std::size_t k, Value* result, Value* of_part) {
      Value* index =
          b_.CreateAdd(b_.CreateMul(result, b_.getInt32(static_cast<std::uint32_t>(parts))), of_part);
      return b_.CreateGEP(types[k], shared_pointer(shared + starts[k]),
                          b_.CreateZExt(index, b_.getInt64Ty()));
    };
    cpu::emit_if(b_, writes, [&] {
      for (std::size_t q = 0; q < partials.size(); ++q)
        for (std::size_t k = 0; k < types.size(); ++k) {
          Value* v = k < tiles ? partials[q].values[k] : partials[q].has;
          if (v->getType()->isIntegerTy(1)) v = b_.CreateZExt(v, b_.getInt8Ty());
          b_.CreateStore(v, address(k, number(representatives[q]), part));
        }
    });
    touch({.kind = Touch::Kind::Shared, .op = &op, .begin = shared, .end = shared + bytes});
    for (std::size_t q = 0; q < partials.size(); ++q) {
      Partial sum;
      for (int p = 0; p < parts; ++p) {
        Partial one;
        for (std::size_t k = 0; k < types.size(); ++k) {
          Value* v = b_.CreateLoad(
              types[k], address(k, number(representatives[q]), b_.getInt32(static_cast<std::uint32_t>(p))));
          llvm::Type* wanted = k < tiles ? partials[q].values[k]->getType() : b_.getInt1Ty();
          if (wanted->isIntegerTy(1) && types[k] != wanted) v = b_.CreateTrunc(v, wanted);
          if (k < tiles)
            one.values.push_back(v);
          else
            one.has = v;
        }
        sum = p == 0 ? one : merge(sum, one);
      }
      partials[q] = sum;
    }
  }

  for (std::size_t k = 0; k < tiles; ++k) {
    const ir::Value* result = op.result(static_cast<int>(k));
    for (Partial& p : partials) {
      Value*& v = p.values[k];
      if (cpu::keeps_wide(op)) v = cpu::round_to(b_, numbers_, v, result->type.dtype);
    }
    if (result->type.is_scalar()) {
      scalars_[result] = partials[0].values[k];
      continue;
    }
    // The registers that are left, in the numbering of the sliced layout.
    Values kept;
    for (const Partial& p : partials)
      kept.push_back(p.values[k]);
    const LinearLayout home = reduced_layout(layout, axis);
    internal_check(kept.size() == std::size_t{1} << home.in_bits(in_register), "a reduction's registers");
    if (const LinearLayout* planned = plan_.find(result); planned && *planned != home)
      define(result, *planned, convert(kept, home, *planned));
    else
      define(result, home, kept);
  }
}

} // namespace kiln::gpu
