// Emits the search, at run time, for consecutive programs whose tiles fill a rectangle.
//
// facts/grouped_product.h describes such groups.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

namespace kiln::cpu {

using llvm::Value;

namespace {

// Emits a search for the first i in [begin, end) for which `holds` is false; `end` if there is none.
template <class Holds> Value* first_failing(IRBuilder& b, Value* begin, Value* end, Holds&& holds) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* header = llvm::BasicBlock::Create(b.getContext(), "while", function);
  auto* test = llvm::BasicBlock::Create(b.getContext(), "holds", function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "found", function);
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  b.CreateCondBr(b.CreateICmpSLT(i, end), test, after);
  b.SetInsertPoint(test);
  Value* good = holds(static_cast<Value*>(i));
  i->addIncoming(b.CreateNSWAdd(i, b.getInt64(1)), b.GetInsertBlock());
  b.CreateCondBr(good, header, after);
  b.SetInsertPoint(after);
  // If the loop is left from `test`, i is the one that failed; if it is left from the header, i is `end`.
  return i;
}

} // namespace

// Emits `count` consecutive programs, from `first` on, as rectangles, one after the other. Each rectangle
// starts with as long a column of tiles as the next programs make, or a row, followed by as many more columns
// or rows of the same length.
void KernelEmitter::emit_group_at_computed_places(const Values& first, Value* count) {
  const Grouping& grouping = grouped_->grouping;
  const auto axis = static_cast<std::size_t>(grouping.computed_axis);
  auto at = [&](Value* program) {
    Values coordinates = first;
    coordinates[axis] = b_.CreateAdd(first[axis], program);
    return coordinates;
  };
  // The scalars that determine the position of a program's tile.
  auto places = [&](Value* program) {
    enter_program(at(program));
    Values values;
    for (const auto* list : {&grouped_->rows, &grouped_->columns, &grouped_->common})
      for (const ir::Value* v : *list)
        values.push_back(scalar(v));
    return values;
  };
  auto smaller = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); };
  auto number = [&](std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); };
  Value* one = number(1);

  auto* header = llvm::BasicBlock::Create(context_, "rectangles", function_);
  auto* body = llvm::BasicBlock::Create(context_, "rectangle", function_);
  auto* after = llvm::BasicBlock::Create(context_, "all", function_);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  llvm::PHINode* done = b_.CreatePHI(b_.getInt64Ty(), 2);
  done->addIncoming(number(0), before);
  b_.CreateCondBr(b_.CreateICmpSLT(done, count), body, after);
  b_.SetInsertPoint(body);

  const Values corner = places(done);
  Value* left = b_.CreateSub(count, done);
  for (const ir::Value* v : grouped_->assumed_non_negative) {
    Value* non_negative = b_.CreateICmpSGE(scalar(v), number(0));
    group_.shared = group_.shared ? b_.CreateAnd(group_.shared, non_negative) : non_negative;
  }
  if (group_.shared) left = b_.CreateSelect(group_.shared, left, one);
  // Whether the tile of the i-th program is `row` rows and `column` columns of tiles away from the corner.
  auto lies = [&](Value* i, Value* row, Value* column) {
    const Values there = places(b_.CreateAdd(done, i));
    Value *down = b_.CreateMul(row, number(grouping.tile_m)),
          *right = b_.CreateMul(column, number(grouping.tile_n));
    Value* same = b_.getTrue();
    for (std::size_t k = 0; k < corner.size(); ++k) {
      Value* expected = corner[k];
      if (k < grouped_->rows.size())
        expected = b_.CreateAdd(expected, down);
      else if (k < grouped_->rows.size() + grouped_->columns.size())
        expected = b_.CreateAdd(expected, right);
      same = b_.CreateAnd(same, b_.CreateICmpEQ(there[k], expected));
    }
    return same;
  };
  Value* none = number(0);
  Value* column = first_failing(b_, one, smaller(left, number(grouping.most_m)),
                                [&](Value* i) { return lies(i, i, none); });
  Value* tall = b_.CreateICmpSGT(column, one);
  Value* row = first_failing(b_, one, b_.CreateSelect(tall, one, smaller(left, number(grouping.most_n))),
                             [&](Value* i) { return lies(i, none, i); });
  Value* length = b_.CreateSelect(tall, column, row);
  Value* most = b_.CreateMul(length, b_.CreateSelect(tall, number(grouping.most_n), number(grouping.most_m)));
  Value* together = first_failing(b_, length, smaller(left, most), [&](Value* i) {
    Value *line = b_.CreateUDiv(i, length), *within = b_.CreateURem(i, length);
    return lies(i, b_.CreateSelect(tall, within, line), b_.CreateSelect(tall, line, within));
  });
  Value* lines = b_.CreateUDiv(together, length);
  emit_rectangle(at(done), b_.CreateSelect(tall, length, lines), b_.CreateSelect(tall, lines, length),
                 [&](Value* m, Value* n) {
                   Value *line = b_.CreateSelect(tall, n, m), *within = b_.CreateSelect(tall, m, n);
                   return at(b_.CreateAdd(done, b_.CreateAdd(b_.CreateMul(line, length), within)));
                 });
  done->addIncoming(b_.CreateAdd(done, b_.CreateMul(length, lines)), b_.GetInsertBlock());
  b_.CreateBr(header);
  b_.SetInsertPoint(after);
}

} // namespace kiln::cpu
