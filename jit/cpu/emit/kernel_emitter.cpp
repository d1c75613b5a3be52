// Emits the entry point, walks over the regions, and emits scalars.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/abi.h>

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <utility>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

KernelEmitter::KernelEmitter(llvm::Module& module, const ir::Kernel& kernel, const Target& target,
                             const NumberOptions& numbers, const DotTarget& dot, const EmitOptions& options)
    : module_(module), context_(module.getContext()), kernel_(kernel), target_(target), numbers_(numbers),
      dot_target_(dot), options_(options), plan_(kernel), needed_(kernel),
      non_negative_(passes::non_negative_scalars(kernel)),
      grouped_(grouped_product(kernel, plan_, non_negative_, target)), b_(module.getContext()),
      layout_(ir::ArgumentLayout::of(kernel)) {
  ir::walk(kernel.body, [&](const ir::Op& op) {
    for (const ir::Value* v : op.operands)
      users_[v].push_back(&op);
  });
  count_kinds();
}

void KernelEmitter::run() {
  emit_entry();
  if (lines_) lines_->finish();
}

void KernelEmitter::emit_entry() {
  auto* ptr = b_.getPtrTy();
  auto* i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, i64, i64}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, entry_name, module_);
  function_->addFnAttr("target-cpu", target_.cpu);
  if (!target_.features.empty()) function_->addFnAttr("target-features", target_.features);
  function_->addFnAttr("prefer-vector-width", std::to_string(target_.vector_bytes * 8));
  function_->addFnAttr("min-legal-vector-width", std::to_string(target_.vector_bytes * 8));
  if (const auto units = static_cast<unsigned>(target_.sve_bytes / 16)) // vectors of that length then use SVE
    function_->addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(context_, units, units));
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr(llvm::Attribute::getWithUWTableKind(
      context_, llvm::UWTableKind::Default)); // for profilers and debuggers
  function_->addFnAttr("frame-pointer", "non-leaf");
  if (options_.line_info) lines_.emplace(module_, kernel_, *function_, b_, llvm::DICompileUnit::FullDebug);

  auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
  auto* start = llvm::BasicBlock::Create(context_, "start", function_);
  b_.SetInsertPoint(entry);
  entry_end_ = b_.CreateBr(start);
  b_.SetInsertPoint(entry_end_);
  launch_context_ = function_->getArg(1);
  whole_scratch_ = scratch_ = b_.CreateLoad(
      ptr, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), launch_context_, offsetof(LaunchContext, scratch)),
      "scratch");
  load_parameters();
  int rank =
      kernel_.grid.empty() ? 3 : static_cast<int>(kernel_.grid.size()); // the Grid of a launch has 3 axes
  ir::walk(kernel_.body, [&](const ir::Op& op) {
    if (op.is(Opcode::ProgramId) || op.is(Opcode::NumPrograms))
      rank = std::max(rank, static_cast<int>(op.integer("axis")) + 1);
  });
  auto of_context = [&](std::size_t field, int axis, const char* name) {
    const std::size_t at = field + 8 * static_cast<std::size_t>(axis);
    return b_.CreateLoad(i64, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), launch_context_, at), name);
  };
  for (int axis = 0; axis < rank; ++axis) {
    grid_.push_back(of_context(offsetof(LaunchContext, grid), axis, "grid"));
    if (grouped_) group_.size.push_back(of_context(offsetof(LaunchContext, group), axis, "group"));
  }

  prepare_deferral();
  begin_updates();
  prepare_array_sums();
  b_.SetInsertPoint(start);
  emit_loop(b_, function_->getArg(2), function_->getArg(3), b_.getInt64(1), {},
            [&](Value* number, const Values&, llvm::Instruction*) -> Values {
              if (grouped_)
                emit_group(number);
              else
                emit_program(number, coordinates_of(number, grid_));
              return {};
            });
  finish_deferral();
  finish_array_sums();
  end_updates();
  finish_prefetches();
  // x86's non-temporal stores are not ordered with the store by which other threads learn that these programs
  // are done.
  if (streams_ && dot_target_.x86) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {});
  b_.CreateRetVoid();
}

void KernelEmitter::load_parameters() {
  Value* arguments = function_->getArg(0);
  auto word = [&](int index, llvm::Type* type) {
    return b_.CreateLoad(
        type, b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), arguments, static_cast<std::uint64_t>(index)));
  };
  for (std::size_t p = 0; p < kernel_.body.args.size(); ++p) {
    const ir::Value* arg = kernel_.body.args[p].get();
    int first = layout_.first_word[p];
    if (arg->type.is_view()) {
      ViewFacts view;
      view.data = word(first, b_.getPtrTy());
      for (int a = 0; a < arg->type.view_rank; ++a) {
        view.extents.push_back(word(first + 1 + a, b_.getInt64Ty()));
        view.strides.push_back(word(first + 1 + arg->type.view_rank + a, b_.getInt64Ty()));
      }
      if (arg->type.layout != LayoutClass::Any && arg->type.view_rank > 0)
        view.strides.back() = b_.getInt64(1);
      views_[arg] = view;
    } else if (arg->type.pointer) {
      scalars_[arg] = word(first, b_.getPtrTy());
    } else {
      scalars_[arg] =
          from_memory(b_, numbers_, word(first, memory_type(context_, arg->type.dtype)), arg->type.dtype);
    }
  }
}

// The coordinates of a program by its number in row-major order: the last axis varies fastest.
Values KernelEmitter::coordinates_of(Value* number, const Values& grid) {
  Values coordinates(grid.size());
  for (std::size_t axis = grid.size(); axis-- > 0;) {
    coordinates[axis] = axis == 0 ? number : b_.CreateURem(number, grid[axis]);
    if (axis != 0) number = b_.CreateUDiv(number, grid[axis]);
  }
  return coordinates;
}

void KernelEmitter::emit_program(Value* program, Values coordinates) {
  program_ = program;
  coordinates_ = std::move(coordinates);
  choose_scratch();
  emit_region(kernel_.body);
}

void KernelEmitter::emit_region(const ir::Region& region) {
  ++region_depth_;
  const int outer = std::exchange(scope_, ++scopes_);
  Parts parts;
  Parts* const outer_parts = std::exchange(open_parts_, &parts);
  for (const auto& op : region.ops) {
    if (op->is(Opcode::Yield)) continue;
    emit_op(*op);
    if (pending_.empty()) begin_part(parts);
  }
  flush();
  begin_part(parts);
  open_parts_ = outer_parts;
  parts_.push_back(std::move(parts));
  scope_ = outer;
  --region_depth_;
}

// Begins a part of the region's code, if loops have been emitted since the last one began.
void KernelEmitter::begin_part(Parts& parts) {
  llvm::BasicBlock* here = b_.GetInsertBlock();
  if (!parts.empty() && here == parts.back()) return;
  auto* next = llvm::BasicBlock::Create(context_, "part", function_);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  parts.push_back(next);
}

void KernelEmitter::locate(const ir::Op& op) {
  if (lines_) lines_->locate(b_, op);
}

bool KernelEmitter::depends_on_pending(const ir::Op& op) const {
  for (const ir::Value* v : op.operands)
    if (!v->type.is_view() &&
        (v->type.is_tile() ? touches_pending(v, false) : v->def && touches_pending(v, true)))
      return true;
  return false;
}

void KernelEmitter::emit_op(const ir::Op& op) {
  switch (op.code) {
  case Opcode::For: return emit_for(op);
  case Opcode::While: return emit_while(op);
  case Opcode::If: return emit_if_op(op);
  case Opcode::Dot: return emit_dot(op);
  case Opcode::Scan: return emit_scan(op);
  case Opcode::Sort: return emit_sort(op);
  case Opcode::Histogram: return emit_histogram(op);
  case Opcode::ViewStore:
  case Opcode::ViewScatter:
  case Opcode::Store: return emit_store(op);
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas: return emit_atomic(op);
  case Opcode::DeviceAssert: return emit_assert(op);
  case Opcode::DevicePrint: return emit_print(op);
  case Opcode::Expects: return; // checked at launch
  case Opcode::Reduce: {
    Root root{Root::Kind::Reduce, nullptr, &op};
    return add_root(root);
  }
  default: break;
  }
  if (op.result()->type.is_scalar()) return emit_scalar(op);
  if (!plan_.has_buffer(op.result())) return; // lazy: evaluated where it is used
  if (plan_.copies_rows(op.result())) return copy_rows(op);
  Root root{Root::Kind::Fill, op.result()};
  root.own = root.sole = true;
  root.buffer = own_buffer(op.result());
  // A nest that only fills scratch from strided views may load whole lines of them (transposed_loads.cpp). It
  // would not, if it had a reduction as well.
  const bool alone = reads_strided(plan_, op);
  if (alone) flush();
  add_root(root);
  if (alone) flush();
}

// Fills the buffer of a reshape that joins rows by a nest over the rows. Each row is stored before the next
// one, so that what its last vector stores too much is overwritten.
void KernelEmitter::copy_rows(const ir::Op& reshape) {
  flush();
  Root root{Root::Kind::Fill, reshape.operand(0)};
  root.buffer = own_buffer(reshape.result());
  root.buffer.extents = extents_of(reshape.operand(0)->type);
  root.buffer.strides = row_major(root.buffer.extents);
  root.in_order = true;
  emit_nest({root}, root.buffer.extents);
}

void KernelEmitter::emit_scalar(const ir::Op& op) {
  if (depends_on_pending(op)) flush();
  locate(op);
  Value*& v = scalars_[op.result()];
  switch (op.code) {
  case Opcode::Constant: v = emit_constant(context_, op); return;
  case Opcode::DimSize:
    v = b_.getInt64(static_cast<std::uint64_t>(std::get<ir::Dim>(*op.find("dim")).value()));
    return;
  case Opcode::ProgramId: v = coordinates_[static_cast<std::size_t>(op.integer("axis"))]; return;
  case Opcode::NumPrograms: v = grid_[static_cast<std::size_t>(op.integer("axis"))]; return;
  case Opcode::ViewExtent:
    v = facts(op.operand(0)).extents[static_cast<std::size_t>(op.integer("axis"))];
    return;
  case Opcode::ViewStride:
    v = facts(op.operand(0)).strides[static_cast<std::size_t>(op.integer("axis"))];
    return;
  case Opcode::ViewData: v = facts(op.operand(0)).data; return;
  default: break;
  }
  // Everything else is evaluated now, as a lazy tile of one element.
  Nest nest;
  Value* result = evaluate(nest, op, {});
  scalars_[op.result()] = result;
}

Value* KernelEmitter::scalar(const ir::Value* v) {
  auto at = scalars_.find(v);
  internal_check(at != scalars_.end(),
                 [&] { return "a scalar of kernel " + kernel_.name + " is used before it is computed"; });
  return at->second;
}

Value* KernelEmitter::zeros() {
  if (auto* known = module_.getNamedGlobal("kiln.zeros")) return known;
  auto* type = llvm::ArrayType::get(b_.getInt8Ty(), 16);
  auto* global = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                          llvm::Constant::getNullValue(type), "kiln.zeros");
  global->setAlignment(llvm::Align(16));
  return global;
}

} // namespace kiln::cpu
