// Emits matrix products of any dtype, from factors in shared memory, with one fma for each product.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>

namespace kiln::gpu {

using llvm::Value;

void KernelEmitter::emit_dot(const ir::Op& op) {
  if (auto factors = mma_factors(op)) return emit_mma(op, *factors);
  const ir::Type& type = op.result()->type;
  const int rank = static_cast<int>(type.shape.size());
  const LinearLayout layout = layout_of(op.result());
  llvm::Type* sum_type = emit::compute_type(context_, type.dtype);
  const bool floats = is_float(type.dtype);

  // Factors in the type of the sum, row-major, padded to powers of two.
  struct Factor {
    std::vector<int> bits;
    std::int64_t shared = 0, bytes = 0;
  };
  Factor factors[2];
  const std::int64_t element = static_cast<std::int64_t>(sum_type->getPrimitiveSizeInBits()) / 8;
  for (int f = 0; f < 2; ++f) {
    factors[f].bits = shape_bits(op.operand(f)->type);
    int total = 0;
    for (int b : factors[f].bits)
      total += b;
    factors[f].bytes = element << total;
  }
  // Code that may use shared memory itself is emitted first, before the factors are written there.
  Values values[2];
  for (int f = 0; f < 2; ++f) {
    values[f] = registers(op.operand(f), layout_of(op.operand(f)));
    for (Value*& x : values[f])
      x = emit::emit_cast(b_, numbers_, x, op.operand(f)->type.dtype, type.dtype);
  }
  Values sums(std::size_t{1} << layout.in_bits(in_register), llvm::Constant::getNullValue(sum_type));
  if (op.num_operands() == 3) sums = registers(op.operand(2), layout);
  factors[0].shared = allocate_shared(factors[0].bytes + factors[1].bytes);
  factors[1].shared = factors[0].shared + factors[0].bytes;
  auto address = [&](int f, const std::vector<Value*>& coordinates) {
    Value* flat = b_.getInt32(0);
    for (std::size_t a = 0; a < coordinates.size(); ++a)
      flat = b_.CreateOr(b_.CreateShl(flat, static_cast<std::uint64_t>(factors[f].bits[a])), coordinates[a]);
    return b_.CreateGEP(sum_type, shared_pointer(factors[f].shared), b_.CreateZExt(flat, b_.getInt64Ty()));
  };
  for (int f = 0; f < 2; ++f) {
    const LinearLayout have = layout_of(op.operand(f));
    touch({.kind = Touch::Kind::Shared,
           .write = true,
           .op = &op,
           .begin = factors[f].shared,
           .end = factors[f].shared + factors[f].bytes});
    const std::uint64_t repeats = have.redundant(in_register);
    auto store_all = [&] {
      for (int r = 0; r < static_cast<int>(values[f].size()); ++r) {
        if (static_cast<std::uint64_t>(r) & repeats) continue;
        std::vector<Value*> at;
        for (int a = 0; a < rank; ++a)
          at.push_back(coordinate(have, r, a));
        b_.CreateStore(values[f][static_cast<std::size_t>(r)], address(f, at));
      }
    };
    if (Value* first = owner(have))
      emit::emit_if(b_, first, store_all);
    else
      store_all();
  }
  touch({.kind = Touch::Kind::Shared,
         .op = &op,
         .begin = factors[0].shared,
         .end = factors[1].shared + factors[1].bytes});

  const auto depth = static_cast<std::uint64_t>(op.operand(0)->type.shape.back().value());
  emit::Loop loop = emit::emit_loop(
      b_, b_.getInt64(0), b_.getInt64(depth), b_.getInt64(1), sums,
      [&](Value* k64, const Values& carried, llvm::Instruction*) -> Values {
        Value* k = b_.CreateTrunc(k64, b_.getInt32Ty());
        Values next;
        // Registers of one row or column have a factor in common, which LLVM finds by its address.
        for (int r = 0; r < static_cast<int>(carried.size()); ++r) {
          std::vector<Value*> at;
          for (int a = 0; a < rank; ++a)
            at.push_back(coordinate(layout, r, a));
          std::vector<Value*> of_a = at, of_b = at;
          of_a.back() = k;
          of_b[of_b.size() - 2] = k;
          Value* x = b_.CreateLoad(sum_type, address(0, of_a));
          Value* y = b_.CreateLoad(sum_type, address(1, of_b));
          Value* sum = carried[static_cast<std::size_t>(r)];
          next.push_back(floats ? b_.CreateIntrinsic(llvm::Intrinsic::fma, {sum_type}, {x, y, sum})
                                : b_.CreateAdd(sum, b_.CreateMul(x, y)));
        }
        return next;
      });
  define(op.result(), layout, loop.results);
}

} // namespace kiln::gpu
