// Emits the entry point and scalars, and passes each operation to the function that emits it.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <kiln/jit/gpu/register_need.h>

#include <algorithm>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

KernelEmitter::KernelEmitter(llvm::Module& module, const ir::Kernel& kernel, const LayoutPlan& plan,
                             const emit::NumberOptions& numbers, Machine& machine, bool debug)
    : module_(module), context_(module.getContext()), kernel_(kernel), plan_(plan), machine_(machine),
      math_(machine), numbers_(numbers), debug_(debug), b_(module.getContext()),
      arguments_(ir::ArgumentLayout::of(kernel)), facts_(passes::axis_info(kernel)),
      non_negative_(passes::non_negative_scalars(kernel)), uses_(ir::count_uses(kernel.body)) {
  numbers_.math.hardware = &math_;
  numbers_.pointer_space = machine.global_space();
  numbers_.math.inline_reduction = true; // around a call, all live values would be saved
  constexpr std::int64_t plenty = 96;    // a heuristic
  if (register_need(kernel, plan).at_once > plenty) find_streams(kernel.body);
}

void KernelEmitter::run() {
  emit_entry();
  if (lines_) lines_->finish();
}

// The parameters are the launch words one by one (dsl/ir/arguments.h), the number of programs along each grid
// axis, and a flag: whether memory that the kernel writes may be reached through two of its views, or by two
// indices of one view.
void KernelEmitter::emit_entry() {
  // A kernel without program_tile is launched with a Grid, which has three axes even if it reads fewer.
  int rank = kernel_.grid.empty() ? 3 : static_cast<int>(kernel_.grid.size());
  ir::walk(kernel_.body, [&](const ir::Op& op) {
    if (op.is(Opcode::ProgramId) || op.is(Opcode::NumPrograms))
      rank = std::max(rank, static_cast<int>(op.integer("axis")) + 1);
  });
  auto* i64 = b_.getInt64Ty();
  auto* global = b_.getPtrTy(machine_.global_space());
  std::vector<llvm::Type*> types;
  auto add_words = [&](const ir::Type& type) {
    types.push_back(type.is_view() || type.pointer ? static_cast<llvm::Type*>(global)
                                                   : emit::memory_type(context_, type.dtype));
    if (type.is_view()) types.insert(types.end(), static_cast<std::size_t>(2 * type.view_rank), i64);
  };
  for (const auto& arg : kernel_.body.args)
    add_words(arg->type);
  types.insert(types.end(), static_cast<std::size_t>(rank), i64);
  types.push_back(b_.getInt32Ty());
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                     llvm::Function::ExternalLinkage, kernel_.name, module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  // Only line directives: ptxas does not optimise files with complete DWARF.
  if (debug_ || keep_lines_)
    lines_.emplace(module_, kernel_, *function_, b_, llvm::DICompileUnit::DebugDirectivesOnly);
  auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
  auto* start = llvm::BasicBlock::Create(context_, "start", function_);
  b_.SetInsertPoint(entry);
  entry_end_ = b_.CreateBr(start);
  b_.SetInsertPoint(entry_end_);
  std::vector<Value*> words;
  for (auto& arg : function_->args())
    words.push_back(&arg);
  load_parameters(words);
  thread_ = machine_.thread(b_);
  lane_ = b_.CreateAnd(thread_, 31, "lane");
  warp_ = b_.CreateLShr(thread_, 5, "warp");
  auto first_grid = words.end() - 1 - rank;
  grid_.assign(first_grid, first_grid + rank);
  overlap_ = b_.CreateICmpNE(words.back(), b_.getInt32(0), "overlap");
  // Row-major: the last axis varies fastest.
  coordinates_.assign(static_cast<std::size_t>(rank), nullptr);
  Value* rest = machine_.program(b_);
  for (std::size_t axis = static_cast<std::size_t>(rank); axis-- > 0;) {
    coordinates_[axis] = axis == 0 ? rest : b_.CreateURem(rest, grid_[axis]);
    if (axis != 0) rest = b_.CreateUDiv(rest, grid_[axis]);
  }
  b_.SetInsertPoint(start);
  emit_region(kernel_.body);
  b_.CreateRetVoid();
}

void KernelEmitter::load_parameters(const std::vector<Value*>& words) {
  for (std::size_t p = 0; p < kernel_.body.args.size(); ++p) {
    const ir::Value* arg = kernel_.body.args[p].get();
    auto word = [&](int i) { return words[static_cast<std::size_t>(arguments_.first_word[p] + i)]; };
    if (arg->type.is_view()) {
      ViewFacts view;
      view.data = word(0);
      for (int a = 0; a < arg->type.view_rank; ++a) {
        view.extents.push_back(word(1 + a));
        view.strides.push_back(word(1 + arg->type.view_rank + a));
      }
      if (arg->type.layout != LayoutClass::Any && arg->type.view_rank > 0)
        view.strides.back() = b_.getInt64(1);
      views_[arg] = view;
    } else {
      scalars_[arg] = arg->type.pointer ? word(0) : emit::from_memory(b_, numbers_, word(0), arg->type.dtype);
    }
  }
}

void KernelEmitter::emit_region(const ir::Region& region) {
  for (const auto& op : region.ops)
    if (!op->is(Opcode::Yield)) emit_op(*op);
}

void KernelEmitter::emit_op(const ir::Op& op) {
  if (lines_) lines_->locate(b_, op);
  switch (op.code) {
  case Opcode::For: return emit_for(op);
  case Opcode::While: return emit_while(op);
  case Opcode::If: return emit_if(op);
  case Opcode::ViewLoad: return emit_view_load(op);
  case Opcode::ViewStore: return emit_view_store(op);
  case Opcode::Load:
  case Opcode::ViewGather: return emit_element_load(op);
  case Opcode::Store:
  case Opcode::ViewScatter: return emit_element_store(op);
  case Opcode::ViewPtrs:
  case Opcode::ViewMask: return emit_view_places(op);
  case Opcode::Reduce: return emit_reduce(op);
  case Opcode::Scan: return emit_scan(op);
  case Opcode::Dot: return emit_dot(op);
  case Opcode::Gather: return emit_gather(op);
  case Opcode::Sort: return emit_sort(op);
  case Opcode::Histogram: return emit_histogram(op);
  case Opcode::Reshape: return emit_reshape(op);
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas: return emit_atomic(op);
  case Opcode::Expects: return; // the host checks it at launch
  case Opcode::DeviceAssert: return emit_assert(op);
  case Opcode::DevicePrint: return emit_print(op);
  default: break;
  }
  if (op.num_results() == 1 && op.result()->type.is_scalar()) return emit_scalar(op);
  if (streams_.contains(&op)) return; // the product that uses it loads it
  const LinearLayout* layout = op.num_results() == 1 ? plan_.find(op.result()) : nullptr;
  internal_check(op.num_results() == 1 && (layout || !plan_.find(op.result())),
                 [&] { return "the GPU back end does not lower " + std::string(ir::name(op.code)); });
  if (!layout) return; // a free tile is computed where it is used
  define(op.result(), *layout, evaluate_free(op.result(), *layout));
}

void KernelEmitter::emit_scalar(const ir::Op& op) {
  Value*& v = scalars_[op.result()];
  switch (op.code) {
  case Opcode::Constant: v = emit::emit_constant(context_, op); return;
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
  // All other scalars are computed like a tile of one element in every thread.
  Value* result = evaluate_free(op.result(), default_layout(op.result()->type, plan_.warps))[0];
  scalars_[op.result()] = result;
}

Value* KernelEmitter::scalar(const ir::Value* v) {
  auto at = scalars_.find(v);
  internal_check(at != scalars_.end(),
                 [&] { return "a scalar of kernel " + kernel_.name + " is used before it is computed"; });
  return at->second;
}

KernelEmitter::ViewFacts& KernelEmitter::facts(const ir::Value* view) {
  auto at = views_.find(view);
  internal_check(at != views_.end(),
                 [&] { return "a view of kernel " + kernel_.name + " is not a parameter"; });
  return at->second;
}

} // namespace kiln::gpu
