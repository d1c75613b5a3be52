// Matrix products on tensor cores: mma.sync.m16n8k16 on fragments in registers.
//
// Factors move to the operand layout that goes with the accumulator's (layouts.h) and are packed two to a
// word. A fragment is the lowest register bits of its layout; the others tell which part of the tile it is.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/gpu/layouts.h>

#include <bit>
#include <map>

namespace kiln::gpu {

using llvm::Value;

namespace {

// The first register of each fragment of 2^bits registers, by the coordinates that the registers add.
std::map<std::pair<std::int64_t, std::int64_t>, int> fragments(const LinearLayout& layout, int bits) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> found;
  for (int r = 0; r < 1 << layout.in_bits(in_register); r += 1 << bits) {
    std::int64_t at[2] = {0, 0};
    for (int i = bits; i < layout.in_bits(in_register); ++i)
      for (int a = 0; a < 2; ++a)
        if (r >> i & 1) at[a] ^= layout.basis(in_register, i, axis_name(a));
    found.emplace(std::pair(at[0], at[1]), r); // of copies the first
  }
  return found;
}

} // namespace

void KernelEmitter::emit_mma(const ir::Op& op) {
  const LinearLayout sums_layout = layout_of(op.result());
  const DType t = op.operand(0)->type.dtype;
  const int depth_bits = std::countr_zero(static_cast<std::uint64_t>(op.operand(0)->type.shape[1].value()));
  constexpr int element_bits = 16, a_bits = 3, b_bits = 2, c_bits = 2;

  LinearLayout layouts[2];
  Values words[2];
  for (int f = 0; f < 2; ++f) {
    const ir::Value* v = op.operand(f);
    layouts[f] = mma_operand(f, sums_layout, depth_bits, element_bits);
    const LinearLayout have = layout_of(v);
    Values values = registers(v, have);
    for (Value*& x : values) {
      // What is held as f32 is a value of the narrow type, so narrowing is exact.
      if (t == DType::BF16)
        x = b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(x, b_.getInt32Ty()), 16), b_.getInt16Ty());
      else
        x = b_.CreateBitCast(b_.CreateFPTrunc(x, b_.getHalfTy()), b_.getInt16Ty());
    }
    values = convert(values, have, layouts[f]);
    for (std::size_t r = 0; r < values.size(); r += 2)
      words[f].push_back(b_.CreateOr(b_.CreateZExt(values[r], b_.getInt32Ty()),
                                     b_.CreateShl(b_.CreateZExt(values[r + 1], b_.getInt32Ty()), 16)));
  }
  Values sums(std::size_t{1} << sums_layout.in_bits(in_register),
              llvm::Constant::getNullValue(b_.getFloatTy()));
  if (op.num_operands() == 3) sums = registers(op.operand(2), sums_layout);

  const auto of_a = fragments(layouts[0], a_bits), of_b = fragments(layouts[1], b_bits);
  auto part = [](const Values& all, int first, int count) {
    return Values(all.begin() + first, all.begin() + first + count);
  };
  for (const auto& [place, c] : fragments(sums_layout, c_bits)) {
    Values fragment = part(sums, c, 1 << c_bits);
    for (std::int64_t k = 0; k < std::int64_t{1} << depth_bits; k += 16)
      fragment = machine_.mma(b_, t, part(words[0], of_a.at({place.first, k}) / 2, 4),
                              part(words[1], of_b.at({k, place.second}) / 2, 2), fragment);
    for (int i = 0; i < 1 << c_bits; ++i)
      sums[static_cast<std::size_t>(c + i)] = fragment[static_cast<std::size_t>(i)];
  }
  define(op.result(), sums_layout, sums);
}

} // namespace kiln::gpu
