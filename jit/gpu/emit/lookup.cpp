// Emits gathers from tiles and histograms, through shared memory.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {

using llvm::Value;

// Threads write the tile by row-major numbers, and read it at the numbers that the indices give.
void KernelEmitter::emit_gather(const ir::Op& op) {
  const ir::Value *tile = op.operand(0), *index = op.operand(1), *result = op.result();
  const auto axis = static_cast<std::size_t>(op.integer("axis"));
  const std::int64_t extent = tile->type.shape[axis].value();
  const LinearLayout have = layout_of(tile), want = layout_of(result);
  const auto range = passes::index_range(index);
  const bool always_inside = range && range->low >= 0 && range->high < extent;

  Values indices = registers(index, want), valid(indices.size(), nullptr);
  for (std::size_t r = 0; r < indices.size(); ++r) {
    Value*& i = indices[r];
    // Padding of the result is anywhere, and its index anything.
    Value* real = inside_tile(want, static_cast<int>(r), result->type);
    if (!always_inside)
      valid[r] =
          b_.CreateICmpULT(i, llvm::ConstantInt::get(i->getType(), static_cast<std::uint64_t>(extent)));
    valid[r] = both(valid[r], real);
    if (valid[r]) i = b_.CreateSelect(valid[r], i, llvm::Constant::getNullValue(i->getType()));
    i = b_.CreateZExtOrTrunc(i, b_.getInt32Ty());
  }
  auto read = [&](int r) {
    Value* flat = b_.getInt32(0);
    for (std::size_t a = 0; a < tile->type.shape.size(); ++a) {
      Value* at = a == axis ? indices[static_cast<std::size_t>(r)] : coordinate(want, r, static_cast<int>(a));
      const auto n = static_cast<std::uint32_t>(tile->type.shape[a].value());
      flat = b_.CreateAdd(b_.CreateMul(flat, b_.getInt32(n)), at);
    }
    Value* v = valid[static_cast<std::size_t>(r)];
    return v ? b_.CreateSelect(v, flat, b_.getInt32(0)) : flat;
  };
  Values values = registers(tile, have);
  clear_padding(values, have, tile->type);
  llvm::Type* type = values[0]->getType();
  Values found =
      exchange(values, have, row_major(have, tile->type), want, read, tile->type.numel() + 1, type);
  for (std::size_t r = 0; r < found.size(); ++r)
    if (valid[r]) found[r] = b_.CreateSelect(valid[r], found[r], llvm::Constant::getNullValue(type));
  define(result, want, std::move(found));
}

// Threads add one to counters in shared memory.
void KernelEmitter::emit_histogram(const ir::Op& op) {
  const ir::Value *tile = op.operand(0), *result = op.result();
  const LinearLayout have = layout_of(tile), want = layout_of(result);
  const std::int64_t bins = result->type.numel(), bytes = 4 * bins;
  const Values elements = registers(tile, have);
  const Values mask = op.mask() ? registers(op.mask(), have) : Values{};
  const std::int64_t shared = allocate_shared(bytes);
  auto counter = [&](Value* bin) {
    return b_.CreateGEP(b_.getInt32Ty(), shared_pointer(shared), b_.CreateZExt(bin, b_.getInt64Ty()));
  };
  auto access = [&](bool write) {
    touch({.kind = Touch::Kind::Shared, .write = write, .begin = shared, .end = shared + bytes});
  };

  access(true);
  auto i64 = [&](std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); };
  emit::emit_loop(b_, b_.CreateZExt(thread_, b_.getInt64Ty()), i64(bins), i64(32 * plan_.warps), {},
                  [&](Value* bin, const Values&, llvm::Instruction*) -> Values {
                    b_.CreateStore(b_.getInt32(0), counter(bin));
                    return {};
                  });

  access(true);
  const auto scope = context_.getOrInsertSyncScopeID(machine_.scope_name("cta"));
  Value* first = owner(have);
  for (std::size_t r = 0; r < elements.size(); ++r) {
    if (r & have.redundant(in_register)) continue;
    Value* bin = elements[r];
    // As unsigned numbers of 64 bits, negative numbers are above all bins.
    Value* wide = b_.CreateIntCast(bin, b_.getInt64Ty(), is_signed(tile->type.dtype));
    Value* counted = both(both(first, inside_tile(have, static_cast<int>(r), tile->type)),
                          b_.CreateICmpULT(wide, i64(bins)));
    if (!mask.empty()) counted = both(counted, mask[r]);
    emit::emit_if(b_, counted, [&] {
      b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, counter(wide), b_.getInt32(1), llvm::Align(4),
                         llvm::AtomicOrdering::Monotonic, scope);
    });
  }

  access(false);
  Values counts;
  for (int r = 0; r < 1 << want.in_bits(in_register); ++r) {
    Value* bin = coordinate(want, r, 0);
    if (Value* real = inside_tile(want, r, result->type)) bin = b_.CreateSelect(real, bin, b_.getInt32(0));
    counts.push_back(b_.CreateLoad(b_.getInt32Ty(), counter(bin)));
  }
  define(result, want, std::move(counts));
}

} // namespace kiln::gpu
