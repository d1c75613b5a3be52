// Matrix products on tensor cores: mma.sync.m16n8 on fragments in registers.
//
// Factors move to the operand layout that goes with the accumulator's (layouts.h) and are packed into
// words. A fragment is the lowest register bits of its layout; the others tell which part of the tile it is.
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

// What a factor's element becomes, as an integer; what is held as f32 is a value of a narrow type, so
// narrowing is exact.
Value* KernelEmitter::mma_element(Value* v, DType t) {
  switch (t) {
  case DType::BF16:
    return b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(v, b_.getInt32Ty()), 16), b_.getInt16Ty());
  case DType::F16: return b_.CreateBitCast(b_.CreateFPTrunc(v, b_.getHalfTy()), b_.getInt16Ty());
  case DType::F32: return machine_.to_tf32(b_, v);
  default: return v;
  }
}

void KernelEmitter::emit_mma(const ir::Op& op, const MmaFactors& factors) {
  const LinearLayout sums_layout = layout_of(op.result());
  const int depth_bits = std::countr_zero(static_cast<std::uint64_t>(op.operand(0)->type.shape[1].value()));
  const int in_word = 32 / factors.element_bits,
            in_word_bits = std::countr_zero(static_cast<unsigned>(in_word));
  const int a_bits = 2 + in_word_bits, b_bits = 1 + in_word_bits, c_bits = 2;

  LinearLayout layouts[2];
  Values words[2];
  for (int f = 0; f < 2; ++f) {
    const ir::Value* v = op.operand(f);
    layouts[f] = mma_operand(f, sums_layout, depth_bits, factors.element_bits);
    const LinearLayout have = layout_of(v);
    Values values = registers(v, have);
    for (Value*& x : values)
      x = mma_element(x, f == 0 ? factors.a : factors.b);
    values = convert(values, have, layouts[f]);
    for (std::size_t r = 0; r < values.size(); r += static_cast<std::size_t>(in_word)) {
      if (in_word == 1) {
        words[f].push_back(values[r]);
        continue;
      }
      Value* lanes = llvm::PoisonValue::get(emit::lanes_type(values[r]->getType(), in_word));
      for (int i = 0; i < in_word; ++i)
        lanes = b_.CreateInsertElement(lanes, values[r + static_cast<std::size_t>(i)],
                                       static_cast<std::uint64_t>(i));
      words[f].push_back(b_.CreateBitCast(lanes, b_.getInt32Ty()));
    }
  }
  Values sums(std::size_t{1} << sums_layout.in_bits(in_register),
              llvm::Constant::getNullValue(emit::compute_type(context_, op.result()->type.dtype)));
  if (op.num_operands() == 3) sums = registers(op.operand(2), sums_layout);

  const auto of_a = fragments(layouts[0], a_bits), of_b = fragments(layouts[1], b_bits);
  auto part = [](const Values& all, int first, int count) {
    return Values(all.begin() + first, all.begin() + first + count);
  };
  for (const auto& [place, c] : fragments(sums_layout, c_bits)) {
    Values fragment = part(sums, c, 1 << c_bits);
    for (std::int64_t k = 0; k < std::int64_t{1} << depth_bits; k += factors.depth())
      fragment =
          machine_.mma(b_, {factors.a, factors.b}, part(words[0], of_a.at({place.first, k}) / in_word, 4),
                       part(words[1], of_b.at({k, place.second}) / in_word, 2), fragment);
    for (int i = 0; i < 1 << c_bits; ++i)
      sums[static_cast<std::size_t>(c + i)] = fragment[static_cast<std::size_t>(i)];
  }
  define(op.result(), sums_layout, sums);
}

} // namespace kiln::gpu
