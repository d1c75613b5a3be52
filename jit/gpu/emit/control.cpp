// Emits loops and branches. Conditions are scalars, so all threads of a block take the same path.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

namespace {

llvm::PHINode* phi_of(IRBuilder& b, Value* first, llvm::BasicBlock* from) {
  llvm::PHINode* phi = b.CreatePHI(first->getType(), 2);
  phi->addIncoming(first, from);
  return phi;
}

} // namespace

std::optional<LinearLayout> KernelEmitter::carried_layout(const ir::Value* v) {
  if (v->type.is_scalar()) return std::nullopt;
  return layout_of(v);
}

// The registers of all `values` in one list, each value in the layout of the value of `places` that it
// becomes.
Values KernelEmitter::flatten(const std::vector<const ir::Value*>& values,
                              const std::vector<const ir::Value*>& places) {
  Values flat;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto layout = carried_layout(places[i]);
    Values part = layout ? registers(values[i], *layout) : Values{scalar(values[i])};
    flat.insert(flat.end(), part.begin(), part.end());
  }
  return flat;
}

// Defines `places` by such a list.
void KernelEmitter::bind(const std::vector<const ir::Value*>& places, const Values& flat) {
  std::size_t at = 0;
  for (const ir::Value* place : places) {
    auto layout = carried_layout(place);
    if (!layout) {
      scalars_[place] = flat[at++];
      continue;
    }
    const std::size_t count = std::size_t{1} << layout->in_bits(in_register);
    auto first = flat.begin() + static_cast<std::ptrdiff_t>(at);
    define(place, *layout, Values(first, first + static_cast<std::ptrdiff_t>(count)));
    at += count;
  }
}

namespace {

std::vector<const ir::Value*> arguments_of(const ir::Region& region, std::size_t first) {
  std::vector<const ir::Value*> values;
  for (std::size_t i = first; i < region.args.size(); ++i)
    values.push_back(region.args[i].get());
  return values;
}

std::vector<const ir::Value*> results_of(const ir::Op& op) {
  std::vector<const ir::Value*> values;
  for (const auto& r : op.results)
    values.push_back(r.get());
  return values;
}

std::vector<const ir::Value*> operands_of(const ir::Op& op, std::size_t first) {
  return std::vector<const ir::Value*>(op.operands.begin() + static_cast<std::ptrdiff_t>(first),
                                       op.operands.end());
}

} // namespace

void KernelEmitter::emit_for(const ir::Op& op) {
  const ir::Region& region = *op.region();
  const auto places = arguments_of(region, 1);
  Values initial = flatten(operands_of(op, 3), places);
  const OpenLoop open = enter_loop(op);
  // The language forbids steps that are not positive, but even those must not run forever.
  Value *begin = scalar(op.operand(0)), *step = scalar(op.operand(2));
  Value* end = b_.CreateSelect(b_.CreateICmpSGT(step, b_.getInt64(0)), scalar(op.operand(1)), begin);
  emit::Loop loop = emit::emit_loop(
      b_, begin, end, step, initial,
      [&](Value* i, const Values& carried, llvm::Instruction*) -> Values {
        scalars_[region.args[0].get()] = i;
        bind(places, carried);
        emit_region(region);
        Values next = flatten(operands_of(*region.terminator(), 0), places);
        close_loop(op);
        return next;
      },
      emit::Wrap::Saturate);
  leave_loop(open);
  bind(results_of(op), loop.results);
}

void KernelEmitter::emit_while(const ir::Op& op) {
  const ir::Region &test = *op.region(0), &body = *op.region(1);
  const auto places = arguments_of(test, 0);
  Values initial = flatten(operands_of(op, 0), places);
  const OpenLoop open = enter_loop(op);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* header = llvm::BasicBlock::Create(context_, "while", function_);
  auto* inside = llvm::BasicBlock::Create(context_, "do", function_);
  auto* after = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  Values carried;
  for (Value* v : initial)
    carried.push_back(phi_of(b_, v, before));
  bind(places, carried);
  emit_region(test);
  settle();
  const Touches tested = touched_; // the loop may end here
  b_.CreateCondBr(scalar(test.terminator()->operand(0)), inside, after);
  b_.SetInsertPoint(inside);
  bind(arguments_of(body, 0), carried);
  emit_region(body);
  Values next = flatten(operands_of(*body.terminator(), 0), places);
  const Touches start = loop_starts_.back().touches;
  close_loop(op);
  for (std::size_t k = 0; k < next.size(); ++k)
    llvm::cast<llvm::PHINode>(carried[k])->addIncoming(next[k], b_.GetInsertBlock());
  b_.CreateBr(header);
  b_.SetInsertPoint(after);
  merge(touched_, tested);
  merge(touched_, start); // contains the accesses of the test after the last iteration
  leave_loop(open);
  bind(results_of(op), carried);
}

void KernelEmitter::emit_if(const ir::Op& op) {
  const auto places = results_of(op);
  llvm::BasicBlock* blocks[2] = {llvm::BasicBlock::Create(context_, "then", function_),
                                 llvm::BasicBlock::Create(context_, "else", function_)};
  auto* join = llvm::BasicBlock::Create(context_, "endif", function_);
  settle();
  b_.CreateCondBr(scalar(op.operand(0)), blocks[0], blocks[1]);
  const Touches touched = touched_;
  const std::vector<LoopStart> starts = loop_starts_;
  Values results[2];
  llvm::BasicBlock* ends[2];
  Touches after[2];
  std::vector<LoopStart> starts_after[2];
  for (int k = 0; k < 2; ++k) {
    b_.SetInsertPoint(blocks[k]);
    touched_ = touched;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      loop_starts_[i].closed = starts[i].closed;
      loop_starts_[i].checked = starts[i].checked;
    }
    const ir::Region& region = *op.region(k);
    emit_region(region);
    if (const ir::Op* yield = region.terminator()) results[k] = flatten(operands_of(*yield, 0), places);
    loaded_.clear();
    ends[k] = b_.GetInsertBlock();
    b_.CreateBr(join);
    after[k] = std::move(touched_);
    starts_after[k] = loop_starts_;
  }
  touched_ = std::move(after[0]);
  merge(touched_, after[1]);
  for (std::size_t i = 0; i < starts.size(); ++i) { // a barrier counts only if both branches have one
    loop_starts_[i].closed &= starts_after[0][i].closed;
    loop_starts_[i].checked &= starts_after[0][i].checked;
  }
  b_.SetInsertPoint(join);
  Values merged;
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    llvm::PHINode* phi = phi_of(b_, results[0][i], ends[0]);
    phi->addIncoming(results[1][i], ends[1]);
    merged.push_back(phi);
  }
  bind(places, merged);
}

} // namespace kiln::gpu
