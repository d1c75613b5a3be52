// Emits reads and writes through views and pointers: addresses, bounds and masks of one vector of lanes.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/facts/column_limit.h>
#include <kiln/jit/passes/index_tiles.h>

#include <bit>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

constexpr std::int64_t more_than_a_tile = std::int64_t{1} << 40; // lanes

} // namespace

ViewFacts& KernelEmitter::facts(const ir::Value* view) {
  auto at = views_.find(view);
  internal_check(at != views_.end(), "a view that is not a parameter of the kernel");
  return at->second;
}

Value* KernelEmitter::mask_and(Value* a, Value* b) {
  auto everywhere = [](Value* v) { // true in all lanes, which needs no mask
    auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(v);
    return known && known->isOne();
  };
  if (everywhere(b)) b = nullptr;
  if (everywhere(a)) a = nullptr;
  if (!a || !b) return a ? a : b;
  match_lanes(b_, a, b);
  return b_.CreateAnd(a, b);
}

// The mask of lanes with 0 <= offset + index < extent; a scalar for a uniform index. `non_negative`: the
// offset is known not to be negative.
Value* KernelEmitter::lane_bounds(Nest& nest, const Index& index, Value* offset, Value* extent,
                                  bool non_negative) {
  Value* position = b_.CreateAdd(offset, index.base);
  if (index.uniform())
    return b_.CreateICmpULT(position, extent); // unsigned, so that a negative position is too large
  if (index.lanes) {
    Value* positions = b_.CreateAdd(widen(b_, position, nest.lanes), index.lanes);
    return b_.CreateICmpULT(positions, widen(b_, extent, nest.lanes));
  }
  // The lanes are consecutive: compare 32-bit lane numbers with two clamped scalars, which is cheaper than
  // 64-bit vectors.
  auto clamp = [&](Value* v) {
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, b_.getInt64(0));
    v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v,
                                 b_.getInt64(static_cast<std::uint64_t>(nest.lanes)));
    return widen(b_, b_.CreateTrunc(v, b_.getInt32Ty()), nest.lanes);
  };
  Value* lane = b_.CreateTrunc(lane_numbers(b_, nest.lanes), lanes_type(b_.getInt32Ty(), nest.lanes));
  if (non_negative) { // a negative position has overflowed 64 bits
    Value* zero = b_.getInt64(0);
    Value* room = b_.CreateSelect(b_.CreateICmpSLT(position, zero), zero, b_.CreateSub(extent, position));
    return b_.CreateICmpSLT(lane, clamp(room));
  }
  return b_.CreateAnd(b_.CreateICmpSGE(lane, clamp(b_.CreateNeg(position))),
                      b_.CreateICmpSLT(lane, clamp(b_.CreateSub(extent, position))));
}

// Returns the limit if `op` compares column indices along the vector axis with a bound that is known before
// the loop.
std::optional<ColumnLimit> KernelEmitter::known_limit(const Nest& nest, const ir::Op& op,
                                                      const Indices& at) const {
  const auto limit = column_limit(op);
  if (!limit) return std::nullopt;
  const Index& column = at[static_cast<std::size_t>(limit->columns.axis)];
  if (!column.linear || !column.direct) return std::nullopt;
  const Index* row = limit->bound.axis >= 0 ? &at[static_cast<std::size_t>(limit->bound.axis)] : nullptr;
  if (row && (!row->uniform() || !row->direct || row->depth > nest.limit_depth)) return std::nullopt;
  return limit;
}

// Whether `op` is such a comparison. If so, the fast part is made to end before it fails, so that it holds in
// all of that part.
bool KernelEmitter::holds_in_fast_part(Nest& nest, const ir::Op& op, const Indices& at) {
  if (nest.guarded) return false;
  const auto limit = known_limit(nest, op, at);
  if (!limit) return false;
  auto of = [&](const passes::IndexTile& tile) {
    Value* offset = tile.offset ? b_.CreateSExt(scalar(tile.offset), b_.getInt64Ty()) : b_.getInt64(0);
    return b_.CreateAdd(offset, b_.getInt64(static_cast<std::uint64_t>(tile.start)));
  };
  IRBuilder::InsertPointGuard keep(b_);
  b_.SetInsertPoint(nest.limit_point);
  Value *first = of(limit->columns), *bound = of(limit->bound), *most = b_.getInt64(more_than_a_tile);
  if (limit->bound.axis >= 0)
    bound = b_.CreateAdd(bound, at[static_cast<std::size_t>(limit->bound.axis)].base);
  Value* room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, bound, first);
  if (limit->inclusive) room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, room, b_.getInt64(1));
  // Columns below the bound do not wrap, since they lie between `first` and the bound; columns past it may.
  Value* wraps =
      b_.CreateICmpSGT(first, b_.getInt64(static_cast<std::uint64_t>(INT64_MAX - more_than_a_tile)));
  if (limit->in_32_bits) {
    auto fits = [&](Value* from, std::int64_t count) { // these indices fit in 32 bits
      Value* last = b_.getInt64(static_cast<std::uint64_t>(std::int64_t{INT32_MAX} + 1 - count));
      return b_.CreateAnd(
          b_.CreateICmpSGE(from, b_.getInt64(static_cast<std::uint64_t>(std::int64_t{INT32_MIN}))),
          b_.CreateICmpSLE(from, last));
    };
    const auto& extents = op.result()->type.shape;
    wraps = b_.CreateNot(b_.CreateAnd(
        fits(first, extents[static_cast<std::size_t>(limit->columns.axis)].value()), fits(bound, 1)));
    room = b_.CreateSelect(wraps, b_.getInt64(0), room);
  }
  limit_lanes(nest, room);
  nest.ends.push_back(b_.CreateSelect(wraps, most, room));
  return true;
}

// Lane 0's position along an axis, or 0 where it is out of bounds. A processor takes a microcode assist for a
// masked load or store whose lanes are all off and whose page is not mapped, as after a tensor that ends at
// the end of an allocation: rows of a tile past the end took up to 140 times as long on Zen 4.
Value* KernelEmitter::mapped(const Index& index, Value* position, Value* extent) {
  Value* inside = index.uniform() ? b_.CreateICmpULT(position, extent) : b_.CreateICmpSLT(position, extent);
  return b_.CreateSelect(inside, position, b_.getInt64(0));
}

// The same for an address that may lie anywhere: replaces it by an address in the stack if no lane is
// accessed.
Value* KernelEmitter::mapped(const Nest& nest, const Access& access) {
  if (access.step == 0 || !access.mask || nest.lanes == 1) return access.address;
  if (!nowhere_) {
    IRBuilder::InsertPointGuard keep(b_);
    b_.SetInsertPoint(entry_end_);
    nowhere_ = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), 64), nullptr, "nowhere");
  }
  Value* any = is_vector(access.mask) ? b_.CreateOrReduce(access.mask) : access.mask;
  return b_.CreateSelect(any, access.address, nowhere_);
}

KernelEmitter::Access KernelEmitter::view_access(Nest& nest, const ir::Op& op, const Indices& at,
                                                 bool address_only) {
  const ir::Value* view = op.operand(0);
  ViewFacts& v = facts(view);
  const ir::Type& type = view->type;
  auto offsets = op.view_offsets();
  const auto& axes = op.integers("axes");
  std::vector<int> tile_axis(offsets.size(), -1);
  for (std::size_t t = 0; t < axes.size(); ++t)
    tile_axis[static_cast<std::size_t>(axes[t])] = static_cast<int>(t);

  Access access;
  llvm::Type* element = memory_type(context_, type.dtype);
  bool guarded = nest.guarded || op.is(Opcode::ViewMask);
  Value* position = b_.getInt64(0);
  Value *lane_part = nullptr, *lane_stride = nullptr;
  Value* end = nullptr;         // the first lane past this view; null: no limit
  Value* rows_inside = nullptr; // which rows are inside of this view; null: all
  int last = type.view_rank - 1;
  for (int a = 0; a <= last; ++a) {
    auto axis = static_cast<std::size_t>(a);
    Value* offset = scalar(offsets[axis]);
    Index index =
        tile_axis[axis] >= 0 ? at[static_cast<std::size_t>(tile_axis[axis])] : Index{b_.getInt64(0)};
    Value* first = b_.CreateAdd(offset, index.base); // of lane 0
    if (!address_only) {
      bool proved = false;
      if (!guarded) {
        // The fast loop goes as far as all lanes are inside. The test is executed once, before the loop.
        IRBuilder::InsertPointGuard keep(b_);
        b_.SetInsertPoint(nest.limit_point);
        Value* zero = b_.getInt64(0);
        if (index.linear && index.divided_by > 0) {
          end_fast_part(nest, offset, v.extents[axis], index.divided_by);
          proved = true;
        } else if (index.linear && index.direct) {
          end_fast_part(nest, offset, v.extents[axis]);
          Value* room = b_.CreateSub(v.extents[axis], offset);
          end = end ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, room) : room;
          proved = true;
        } else if (index.uniform() && index.direct && index.depth <= nest.limit_depth) {
          Value* inside = b_.CreateICmpULT(b_.CreateAdd(offset, index.base), v.extents[axis]);
          limit_unless(nest, inside);
          rows_inside = mask_and(rows_inside, inside);
          proved = true;
        } else if (tile_axis[axis] >= 0) { // the whole tile lies inside, or no vector is in the fast part
          std::int64_t most =
              op.is(Opcode::ViewStore)
                  ? extents_of(op.stored_value()->type)[static_cast<std::size_t>(tile_axis[axis])]
                  : extents_of(op.result()->type)[static_cast<std::size_t>(tile_axis[axis])];
          // The comparison has no sum that could overflow 64 bits.
          Value* last = b_.CreateSub(v.extents[axis], b_.getInt64(static_cast<std::uint64_t>(most)));
          Value* inside = b_.CreateAnd(b_.CreateICmpSGE(offset, zero), b_.CreateICmpSLE(offset, last));
          limit_unless(nest, inside);
          proved = true;
        }
      }
      if (!proved) {
        access.mask = mask_and(access.mask, lane_bounds(nest, index, offset, v.extents[axis],
                                                        non_negative_.count(offsets[axis]) != 0));
        if (!index.lanes) first = mapped(index, first, v.extents[axis]);
      }
    }
    Value* stride = a == last && type.layout != LayoutClass::Any ? b_.getInt64(1) : v.strides[axis];
    position = b_.CreateAdd(position, b_.CreateMul(first, stride));
    if (index.uniform()) continue;
    if (index.linear && a == last && type.layout != LayoutClass::Any && !lane_part) continue;
    access.step = 0;
    lane_stride = index.linear && !lane_part ? stride : nullptr;
    Value* lanes = index.linear ? lane_numbers(b_, nest.lanes) : index.lanes;
    Value* part = b_.CreateMul(lanes, widen(b_, stride, nest.lanes));
    lane_part = lane_part ? b_.CreateAdd(lane_part, part) : part;
  }
  if (end) {
    IRBuilder::InsertPointGuard keep(b_);
    b_.SetInsertPoint(nest.limit_point);
    nest.ends.push_back(rows_inside ? b_.CreateSelect(rows_inside, end, b_.getInt64(0)) : end);
  }
  if (!address_only && !op.is(Opcode::ViewMask))
    if (const ir::Value* mask = op.mask())
      access.mask = mask_and(access.mask, operand_element(nest, mask, at));
  // All lanes are accessed, since a nest that is not guarded has no tail.
  if (lane_stride && !nest.guarded && !access.mask && !address_only) {
    access.stride = lane_stride;
    access.address = b_.CreateGEP(element, v.data, position);
    return access;
  }
  // A linear last axis that came before a second varying axis was counted as contiguous. That is no problem:
  // nests over the tile itself have at most one varying axis, and reshaped indices are never linear together
  // with others.
  access.address = b_.CreateGEP(
      element, v.data, lane_part ? b_.CreateAdd(widen(b_, position, nest.lanes), lane_part) : position);
  if (address_only && access.step == 1 && nest.lanes > 1) {
    bool varies = false;
    for (const Index& index : at)
      varies |= !index.uniform();
    if (varies) access.address = b_.CreateGEP(element, access.address, lane_numbers(b_, nest.lanes));
  }
  return access;
}

// Makes the fast part empty unless `inside` holds. The builder must be at the limit point.
void KernelEmitter::limit_unless(Nest& nest, Value* inside) {
  Value* everything = b_.getInt64(static_cast<std::uint64_t>(INT64_MAX));
  nest.limits.push_back(b_.CreateSelect(inside, everything, b_.getInt64(0)));
}

// Makes the fast part end before a lane of a direct index reaches `room`. If the current vector has more or
// fewer lanes than the loop's, the index is scaled by the same factor; or it is the loop's, divided. The
// builder must be at the limit point.
void KernelEmitter::limit_lanes(Nest& nest, Value* room, int divided_by) {
  if (divided_by > 0) {
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, room, b_.getInt64(0));
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, room, b_.getInt64(more_than_a_tile));
    return nest.limits.push_back(b_.CreateMul(room, b_.getInt64(static_cast<std::uint64_t>(divided_by))));
  }
  const int more = std::countr_zero(static_cast<unsigned>(nest.lanes)) -
                   std::countr_zero(static_cast<unsigned>(nest.loop_lanes));
  if (more != 0) {
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, room, b_.getInt64(0));
    room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, room, b_.getInt64(more_than_a_tile));
    room = more > 0 ? b_.CreateLShr(room, static_cast<std::uint64_t>(more))
                    : b_.CreateShl(room, static_cast<std::uint64_t>(-more));
  }
  nest.limits.push_back(room);
}

// Makes the fast part end before a lane whose index is `first` plus its own reaches `extent`, or makes it
// empty if `first` is negative. The builder must be at the limit point.
void KernelEmitter::end_fast_part(Nest& nest, Value* first, Value* extent, int divided_by) {
  Value* zero = b_.getInt64(0);
  limit_lanes(nest, b_.CreateSelect(b_.CreateICmpSLT(first, zero), zero, b_.CreateSub(extent, first)),
              divided_by);
}

// Evaluates an operand that is a scalar or a tile of the operation's shape.
Value* KernelEmitter::operand_element(Nest& nest, const ir::Value* v, const Indices& at) {
  return element(nest, v, v->type.is_scalar() ? Indices{} : at);
}

Value* KernelEmitter::load_access(Nest& nest, const Access& access, DType t, const ir::Value* other,
                                  const Indices& at) {
  llvm::Type* element_type = memory_type(context_, t);
  llvm::Align align(static_cast<unsigned>(access.align ? access.align : size_of(t)));
  bool many = is_vector(access.address);
  bool varies = many;
  for (const Index& index : at)
    varies |= !index.uniform();
  if (!many && access.step == 0 && !access.stride) varies = false; // one address for all lanes
  Value* mask = access.mask;
  Value* bits;
  if (nest.lanes == 1 || !varies) {
    if (mask && is_vector(mask)) {
      // All lanes have one address, which may be accessed if any lane is active.
      mask = b_.CreateOrReduce(mask_and(mask, nest.tail));
    }
    Value* address = access.address;
    if (mask) address = b_.CreateSelect(mask, address, zeros());
    bits = b_.CreateAlignedLoad(element_type, address, align);
  } else {
    llvm::Type* type = lanes_type(element_type, nest.lanes);
    mask = mask_and(mask, many ? nest.tail : nullptr);
    if (access.stride) {
      bits = load_apart(nest, access, element_type, align);
    } else if (access.step != 0 && access.step != 1) {
      bits = load_steps(nest, access, element_type, align);
    } else if (many) {
      Value* all = llvm::Constant::getAllOnesValue(lanes_type(b_.getInt1Ty(), nest.lanes));
      bits = b_.CreateMaskedGather(type, access.address, align, mask ? widen(b_, mask, nest.lanes) : all,
                                   llvm::Constant::getNullValue(type));
    } else if (mask) {
      bits = b_.CreateMaskedLoad(type, access.address, align, widen(b_, mask, nest.lanes),
                                 llvm::Constant::getNullValue(type));
    } else {
      bits = b_.CreateAlignedLoad(type, access.address, align);
    }
  }
  Value* v = from_memory(b_, numbers_, bits, t);
  Value* chosen = access.mask;
  if (!chosen) return v;
  if (!other) {
    if (!is_vector(chosen) || is_vector(v)) return v; // masked lanes are already zero
    return b_.CreateSelect(chosen, widen(b_, v, nest.lanes),
                           llvm::Constant::getNullValue(lanes_type(v->getType(), nest.lanes)));
  }
  Value* o = operand_element(nest, other, at);
  match_lanes(b_, v, o);
  if (is_vector(chosen)) v = widen(b_, v, nest.lanes), o = widen(b_, o, nest.lanes);
  return b_.CreateSelect(chosen, v, o);
}

void KernelEmitter::store_access(Nest& nest, const Access& access, DType t, Value* value) {
  llvm::Align align(static_cast<unsigned>(size_of(t)));
  Value* mask = mask_and(access.mask, nest.lanes > 1 ? nest.tail : nullptr);
  if (nest.lanes == 1) {
    Value* bits = to_memory(b_, numbers_, value, t);
    if (!mask) return (void)b_.CreateAlignedStore(bits, access.address, align);
    return emit_if(b_, mask, [&] { b_.CreateAlignedStore(bits, access.address, align); });
  }
  Value* bits = to_memory(b_, numbers_, widen(b_, value, nest.lanes), t);
  if (access.step == 1) {
    if (mask && store_runs(bits, access.address, align, mask)) return;
    if (mask)
      b_.CreateMaskedStore(bits, access.address, align, widen(b_, mask, nest.lanes));
    else if (nest.streaming)
      b_.CreateAlignedStore(bits, access.address,
                            llvm::Align(static_cast<unsigned>(nest.native_lanes * size_of(t))))
          ->setMetadata(llvm::LLVMContext::MD_nontemporal,
                        llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
    else
      b_.CreateAlignedStore(bits, access.address, align);
    return;
  }
  if (access.stride) return store_apart(nest, access, bits, align);
  Value* all = llvm::Constant::getAllOnesValue(lanes_type(b_.getInt1Ty(), nest.lanes));
  b_.CreateMaskedScatter(bits, widen(b_, access.address, nest.lanes), align,
                         mask ? widen(b_, mask, nest.lanes) : all);
}

} // namespace kiln::cpu
