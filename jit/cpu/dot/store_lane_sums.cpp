// Stores totals as short vectors: the columns of a row.
#include <kiln/jit/cpu/dot/store_lane_sums.h>

#include <kiln/jit/cpu/dot/microkernel.h>
#include <kiln/jit/emit/lane_sums.h>

#include <algorithm>
#include <bit>

namespace kiln::cpu::dot {

namespace {

using llvm::Value;

// Stores, or adds to C, the first `room` lanes. AMD's AVX2 is slow to store under a mask.
void store_row(Builder& b, const Results& results, Value* row, Value* place, llvm::Align align, Value* room) {
  auto* type = llvm::cast<llvm::FixedVectorType>(row->getType());
  const auto lanes = static_cast<int>(type->getNumElements());
  Value* none = llvm::ConstantFP::getNegativeZero(type);
  const auto added = [&](Value* old) {
    return b.CreateFAdd(b.CreateSelect(results.accumulate, old, none), row);
  };
  emit_if_else(
      b, b.CreateICmpSGE(room, b.getInt64(static_cast<std::uint64_t>(lanes))),
      [&] { b.CreateAlignedStore(added(b.CreateAlignedLoad(type, place, align)), place, align); },
      [&] {
        Value* mask = lanes_below(b, room, lanes);
        b.CreateMaskedStore(added(b.CreateMaskedLoad(type, place, align, mask, none)), place, align, mask);
      });
}

} // namespace

void store_lane_sums(Builder& b, const Plan& plan, const Results& results, Value* i, Value* j, int columns,
                     llvm::ArrayRef<Value*> sums) {
  // The totals of a row are neighbours, in a number of lanes that is a power of two.
  const auto padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(columns)));
  const int rows = static_cast<int>(sums.size()) / columns;
  llvm::SmallVector<Value*, 32> of_rows;
  for (int r = 0; r < rows; ++r) {
    const auto row = sums.slice(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
    of_rows.append(row.begin(), row.end());
    of_rows.append(static_cast<std::size_t>(padded - columns),
                   llvm::Constant::getNullValue(row[0]->getType()));
  }
  const auto lanes = static_cast<std::size_t>(plan.lanes);
  emit::Values totals;
  for (llvm::ArrayRef<Value*> left = of_rows; !left.empty();
       left = left.drop_front(std::min(lanes, left.size()))) {
    const auto together = left.take_front(lanes);
    totals.push_back(emit::lane_sums(b, {together.begin(), together.end()}));
  }
  llvm::Type* element = accumulator_type(b, plan);
  const llvm::Align align(static_cast<std::uint64_t>(size_of(plan.accumulator)));
  const int part = std::min(padded, plan.lanes);
  Value* end = columns < padded
                   ? smin(b, results.n, b.CreateAdd(j, b.getInt64(static_cast<std::uint64_t>(columns))))
                   : results.n;
  const auto number = [&](int x) { return b.getInt64(static_cast<std::uint64_t>(x)); };
  for (int r = 0; r < rows; ++r) {
    Value* row = b.CreateAdd(i, number(r));
    emit_if(b, b.CreateICmpSLT(row, results.m), [&] {
      for (int q = 0; q < columns; q += part) {
        const int first = r * padded + q;
        llvm::SmallVector<int, 16> order;
        for (int lane = 0; lane < part; ++lane)
          order.push_back(first % plan.lanes + lane);
        Value* column = b.CreateAdd(j, number(q));
        Value* place =
            b.CreateGEP(element, results.c, b.CreateAdd(b.CreateMul(row, results.row_stride), column));
        store_row(b, results,
                  b.CreateShuffleVector(totals[static_cast<std::size_t>(first / plan.lanes)], order), place,
                  align, b.CreateSub(end, column));
      }
    });
  }
}

} // namespace kiln::cpu::dot
