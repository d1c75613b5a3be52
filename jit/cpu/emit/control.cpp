// Emits loops and branches. Scalars are carried as phis, tiles in buffers.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// Copies the initial value of every carried tile into the buffer of the region's argument.
void KernelEmitter::enter_carried(const ir::Op& op, int first_operand, const ir::Region& region) {
  int first_arg = static_cast<int>(region.args.size()) - (op.num_operands() - first_operand);
  Parts parts;
  for (int i = first_operand; i < op.num_operands(); ++i) {
    const ir::Value* arg = region.args[static_cast<std::size_t>(first_arg + i - first_operand)].get();
    if (!arg->type.is_tile()) continue;
    Root root{Root::Kind::Fill, op.operand(i)};
    root.buffer = own_buffer(arg);
    emit_nest({root}, root.buffer.extents);
    begin_part(parts);
  }
  parts_.push_back(std::move(parts));
}

Values KernelEmitter::scalar_operands(const ir::Op& op, int first) {
  Values values;
  for (int i = first; i < op.num_operands(); ++i)
    if (op.operand(i)->type.is_scalar()) values.push_back(scalar(op.operand(i)));
  return values;
}

void KernelEmitter::bind_scalar_args(const ir::Region& region, int first, const Values& values) {
  std::size_t k = 0;
  for (std::size_t i = static_cast<std::size_t>(first); i < region.args.size(); ++i)
    if (region.args[i]->type.is_scalar()) scalars_[region.args[i].get()] = values[k++];
}

// Whether the evaluation of `v` reads the buffer of `arg`. Sets `*moved` if it reads another element than the
// one that is evaluated.
bool KernelEmitter::reads_buffer_of(const ir::Value* v, const ir::Value* arg, bool* moved) const {
  std::set<std::pair<const ir::Value*, bool>> seen;
  bool reads = false;
  auto visit = [&](auto&& self, const ir::Value* x, bool identity) -> void {
    if (!seen.insert({x, identity}).second) return;
    if (x == arg) {
      reads = true;
      *moved |= !identity;
      return;
    }
    if (!x->def || !x->type.is_tile() || plan_.has_buffer(x)) return;
    bool keeps = identity && !moves_elements(*x->def);
    for (const ir::Value* operand : x->def->operands)
      if (!operand->type.is_view()) self(self, operand, keeps);
  };
  visit(visit, v, true);
  return reads;
}

// Stores the yielded tiles in the carried buffers, each after everything that reads the old content of its
// buffer.
void KernelEmitter::emit_tile_yields(const ir::Op& yield, const ir::Region& region, int first_arg) {
  struct Pending {
    const ir::Value* value;
    const ir::Value* arg;
    Buffer from; // the temporary that holds the new value, if it waits
    bool waits = false;
  };
  std::vector<Pending> left;
  for (int i = 0; i < yield.num_operands(); ++i) {
    const ir::Value* arg = region.args[static_cast<std::size_t>(first_arg + i)].get();
    const ir::Value* value = yield.operand(i);
    if (!arg->type.is_tile() || value == arg) continue;
    if (value->def && dot_target_arg_.count(value->def) && dot_target_arg_.at(value->def) == arg)
      continue; // already there
    left.push_back({value, arg, {}});
  }
  Parts parts;
  auto write = [&](const Pending& p) {
    Root root{Root::Kind::Fill, p.value};
    root.buffer = own_buffer(p.arg);
    if (p.waits) root.stored_from = &p.from;
    emit_nest({root}, root.buffer.extents);
    begin_part(parts);
  };
  while (!left.empty()) {
    auto free = std::find_if(left.begin(), left.end(), [&](const Pending& p) {
      bool moved = false;
      if (!p.waits) reads_buffer_of(p.value, p.arg, &moved);
      if (moved) return false;
      return std::none_of(left.begin(), left.end(), [&](const Pending& other) {
        bool ignored = false;
        return &other != &p && !other.waits && reads_buffer_of(other.value, p.arg, &ignored);
      });
    });
    if (free != left.end()) {
      write(*free);
      left.erase(free);
      continue;
    }
    // There is a cycle, as in swapping two tiles: one new value waits in a temporary.
    auto cut = std::find_if(left.begin(), left.end(), [](const Pending& p) { return !p.waits; });
    Buffer temporary = make_buffer(cut->value->type);
    Root root{Root::Kind::Fill, cut->value};
    root.buffer = temporary;
    emit_nest({root}, temporary.extents);
    cut->from = temporary;
    cut->waits = true;
  }
  parts_.push_back(std::move(parts));
}

// Finds dots that may add in place: the accumulator is a carried tile, or computed from it, and the result is
// that tile's next value.
void KernelEmitter::forward_dots(const ir::Region& region, int first_arg) {
  const ir::Op* yield = region.terminator();
  for (int i = 0; i < yield->num_operands(); ++i) {
    const ir::Value* value = yield->operand(i);
    const ir::Value* arg = region.args[static_cast<std::size_t>(first_arg + i)].get();
    if (!value->def || !value->def->is(Opcode::Dot) || value->def->num_operands() != 3) continue;
    const ir::Op* dot = value->def;
    if (std::none_of(region.ops.begin(), region.ops.end(), [&](const auto& op) { return op.get() == dot; }))
      continue;
    if (users_[value].size() != 1 ||
        value->type.dtype != dot_accumulator(dot->operand(0)->type.dtype, dot->operand(1)->type.dtype))
      continue;
    bool moved = false;
    reads_buffer_of(dot->operand(2), arg, &moved);
    // Nothing but the accumulator of this dot may read the carried tile.
    bool only = !moved;
    std::set<const ir::Value*> seen;
    auto feeds_only = [&](auto&& self, const ir::Value* v) -> void {
      if (!seen.insert(v).second) return;
      for (const ir::Op* user : users_[v]) {
        if (user == dot) {
          only &= dot->operand(0) != v && dot->operand(1) != v;
        } else if (is_root(*user) || user->num_results() != 1 || plan_.has_buffer(user->result()) ||
                   !user->result()->type.is_tile()) {
          only = false;
        } else {
          self(self, user->result());
        }
        if (!only) return;
      }
    };
    feeds_only(feeds_only, arg);
    if (only) dot_target_arg_[dot] = arg;
  }
}

void KernelEmitter::emit_for(const ir::Op& op) {
  if (!take_shared_sums(op)) emit_own_for(op);
}

void KernelEmitter::emit_own_for(const ir::Op& op) {
  if (auto product = product_loop(op, plan_, non_negative_)) return emit_product_loop(*product);
  flush();
  const ir::Region& region = *op.region();
  enter_carried(op, 3, region);
  forward_dots(region, 1);
  Values initial = scalar_operands(op, 3);
  // The language forbids steps that are not positive; such a loop must still end.
  Value *begin = scalar(op.operand(0)), *step = scalar(op.operand(2));
  Value* end = b_.CreateSelect(b_.CreateICmpSGT(step, b_.getInt64(0)), scalar(op.operand(1)), begin);
  Loop loop = emit_loop(
      b_, begin, end, step, initial,
      [&](Value* i, const Values& carried, llvm::Instruction*) -> Values {
        scalars_[region.args[0].get()] = i;
        bind_scalar_args(region, 1, carried);
        loops_.push_back({region.args[0].get(), b_.CreateAdd(i, step)});
        emit_region(region);
        loops_.pop_back();
        const ir::Op& yield = *region.terminator();
        Values next = scalar_operands(yield, 0);
        emit_tile_yields(yield, region, 1);
        return next;
      },
      Wrap::Saturate);
  std::size_t k = 0;
  for (int i = 0; i < op.num_results(); ++i) {
    if (op.result(i)->type.is_scalar())
      scalars_[op.result(i)] = loop.results[k++];
    else
      buffers_[op.result(i)] = own_buffer(region.args[static_cast<std::size_t>(i) + 1].get());
  }
}

void KernelEmitter::emit_while(const ir::Op& op) {
  flush();
  const ir::Region &test = *op.region(0), &body = *op.region(1);
  enter_carried(op, 0, test);
  // Both regions use the same buffers of the carried tiles.
  for (std::size_t i = 0; i < test.args.size(); ++i)
    if (test.args[i]->type.is_tile()) buffers_[body.args[i].get()] = own_buffer(test.args[i].get());
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* header = llvm::BasicBlock::Create(context_, "while", function_);
  auto* inside = llvm::BasicBlock::Create(context_, "do", function_);
  auto* after = llvm::BasicBlock::Create(context_, "done", function_);
  Values initial = scalar_operands(op, 0);
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  Values carried;
  for (Value* v : initial) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    carried.push_back(phi);
  }
  bind_scalar_args(test, 0, carried);
  emit_region(test);
  b_.CreateCondBr(scalar(test.terminator()->operand(0)), inside, after);
  b_.SetInsertPoint(inside);
  bind_scalar_args(body, 0, carried);
  emit_region(body);
  Values next = scalar_operands(*body.terminator(), 0);
  emit_tile_yields(*body.terminator(), body, 0);
  for (std::size_t k = 0; k < next.size(); ++k)
    llvm::cast<llvm::PHINode>(carried[k])->addIncoming(next[k], b_.GetInsertBlock());
  b_.CreateBr(header);
  b_.SetInsertPoint(after);
  std::size_t k = 0;
  for (int i = 0; i < op.num_results(); ++i) {
    if (op.result(i)->type.is_scalar())
      scalars_[op.result(i)] = carried[k++];
    else
      buffers_[op.result(i)] = own_buffer(test.args[static_cast<std::size_t>(i)].get());
  }
}

void KernelEmitter::emit_if_op(const ir::Op& op) {
  flush();
  for (const auto& r : op.results)
    if (r->type.is_tile()) own_buffer(r.get());
  Value* condition = scalar(op.operand(0));
  auto* then_block = llvm::BasicBlock::Create(context_, "then", function_);
  auto* else_block = llvm::BasicBlock::Create(context_, "else", function_);
  auto* join = llvm::BasicBlock::Create(context_, "endif", function_);
  b_.CreateCondBr(condition, then_block, else_block);
  std::vector<Values> yields;
  std::vector<llvm::BasicBlock*> ends;
  for (int r = 0; r < 2; ++r) {
    b_.SetInsertPoint(r == 0 ? then_block : else_block);
    const ir::Region& region = *op.region(r);
    emit_region(region);
    if (const ir::Op* yield = region.terminator()) {
      yields.push_back(scalar_operands(*yield, 0));
      for (int i = 0; i < yield->num_operands(); ++i) {
        if (!yield->operand(i)->type.is_tile()) continue;
        Root root{Root::Kind::Fill, yield->operand(i)};
        root.buffer = own_buffer(op.result(i));
        emit_nest({root}, root.buffer.extents);
      }
    } else {
      yields.push_back({});
    }
    ends.push_back(b_.GetInsertBlock());
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
  std::size_t k = 0;
  for (const auto& r : op.results) {
    if (!r->type.is_scalar()) continue;
    llvm::PHINode* phi = b_.CreatePHI(yields[0][k]->getType(), 2);
    for (std::size_t side = 0; side < 2; ++side)
      phi->addIncoming(yields[side][k], ends[side]);
    scalars_[r.get()] = phi;
    ++k;
  }
}

} // namespace kiln::cpu
