// Emits asserts and prints: values are stored in scratch, and a hook of the runtime examines them.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/dsl/ir/semantics.h>
#include <kiln/jit/cpu/abi.h>

#include <functional>

namespace kiln::cpu {

using llvm::Value;

llvm::FunctionCallee KernelEmitter::hook(const char* name, llvm::Type* result,
                                         std::vector<llvm::Type*> parameters) {
  return module_.getOrInsertFunction(name, llvm::FunctionType::get(result, parameters, false));
}

llvm::Constant* KernelEmitter::text(std::string_view s) {
  return b_.CreateGlobalString(llvm::StringRef(s.data(), s.size()));
}

llvm::Constant* KernelEmitter::extents_table(const ir::Type& type) {
  std::vector<llvm::Constant*> extents;
  for (std::int64_t extent : extents_of(type))
    extents.push_back(b_.getInt64(static_cast<std::uint64_t>(extent)));
  auto* array = llvm::ArrayType::get(b_.getInt64Ty(), extents.size());
  return new llvm::GlobalVariable(module_, array, true, llvm::GlobalValue::PrivateLinkage,
                                  llvm::ConstantArray::get(array, extents));
}

void KernelEmitter::emit_dense(const ir::Value* v, Value* pointer,
                               const std::function<Value*(Nest&, const Indices&, Value*)>& change) {
  auto extents = extents_of(v->type);
  Nest nest;
  nest.domain = extents;
  Indices at(extents.size(), Index{b_.getInt64(0)});
  llvm::Type* element_type = v->type.pointer ? b_.getPtrTy() : memory_type(context_, v->type.dtype);
  auto loops = [&](auto&& self, std::size_t axis, Value* position) -> void {
    if (axis == extents.size()) {
      nest.memo.clear();
      Value* x = change(nest, at, operand_element(nest, v, at));
      b_.CreateStore(v->type.pointer ? x : to_memory(b_, numbers_, x, v->type.dtype),
                     b_.CreateGEP(element_type, pointer, position));
      return;
    }
    Value* extent = b_.getInt64(static_cast<std::uint64_t>(extents[axis]));
    emit_loop(b_, b_.getInt64(0), extent, b_.getInt64(1), {},
              [&](Value* i, const Values&, llvm::Instruction*) -> Values {
                at[axis] = Index{i, false, nullptr, static_cast<int>(axis) + 1};
                self(self, axis + 1, b_.CreateAdd(b_.CreateMul(position, extent), i));
                return {};
              });
  };
  loops(loops, 0, b_.getInt64(0));
}

// Finds the comparison that a condition consists of, also under a mask ("a < b | !mask"). Its operands must
// still be available where the condition is used: those of a tile in a buffer may have been read before a
// store.
const ir::Op* KernelEmitter::comparison_of(const ir::Value* condition) const {
  if (!condition->def || (condition->type.is_tile() && plan_.has_buffer(condition))) return nullptr;
  const ir::Op& op = *condition->def;
  if (!ir::relation_text(op.code).empty()) return &op;
  if (!op.is(ir::Opcode::Or)) return nullptr;
  const ir::Op* left = comparison_of(op.operand(0));
  return left ? left : comparison_of(op.operand(1));
}

void KernelEmitter::emit_assert(const ir::Op& op) {
  flush();
  if (!options_.debug) return;
  locate(op);
  const ir::Value* condition = op.operand(0);
  std::int64_t count = condition->type.numel();
  Buffer dense = make_buffer(DType::Bool, false, {count});
  emit_dense(condition, dense.pointer, [&](Nest& nest, const Indices& at, Value* holds) {
    const ir::Value* mask = op.mask();
    return mask ? b_.CreateOr(holds, b_.CreateNot(operand_element(nest, mask, at))) : holds;
  });
  auto* ptr = b_.getPtrTy();
  auto* i64 = b_.getInt64Ty();
  const ir::Op* comparison = comparison_of(condition);
  llvm::Constant* null = llvm::ConstantPointerNull::get(ptr);
  llvm::Constant* relation = null;
  Value* sides[2] = {null, null};
  std::int64_t dtype = 0;
  if (comparison) {
    relation = text(ir::relation_text(comparison->code));
    for (int i = 0; i < 2; ++i) {
      const ir::Value* side = comparison->operand(i);
      dtype = side->type.pointer ? -1 : static_cast<std::int64_t>(side->type.dtype);
      Buffer values = make_buffer(side->type.dtype, side->type.pointer, {count});
      emit_dense(side, values.pointer, [](Nest&, const Indices&, Value* x) { return x; });
      sides[i] = values.pointer;
    }
  }
  Value* failed = b_.CreateCall(
      hook(assert_hook, b_.getInt32Ty(), {ptr, i64, ptr, i64, ptr, ptr, i64, ptr, ptr, i64, ptr, ptr}),
      {launch_context_, program_, dense.pointer, b_.getInt64(condition->type.shape.size()),
       extents_table(condition->type), text(op.loc ? op.loc.file : ""),
       b_.getInt64(static_cast<std::uint64_t>(op.loc.line)), text(op.text("message")), relation,
       b_.getInt64(static_cast<std::uint64_t>(dtype)), sides[0], sides[1]});
  // The program ends here. Other programs go on until they see the stop flag.
  auto* stop = llvm::BasicBlock::Create(context_, "assert.failed", function_);
  auto* on = llvm::BasicBlock::Create(context_, "assert.held", function_);
  b_.CreateCondBr(b_.CreateICmpNE(failed, b_.getInt32(0)), stop, on);
  b_.SetInsertPoint(stop);
  end_updates();
  b_.CreateRetVoid();
  b_.SetInsertPoint(on);
}

// void kiln_hook_print(context, program, label, dtype or -1 for an address, rank, extents, data)
void KernelEmitter::emit_print(const ir::Op& op) {
  flush();
  locate(op);
  auto* ptr = b_.getPtrTy();
  auto* i64 = b_.getInt64Ty();
  auto print = hook(print_hook, b_.getVoidTy(), {ptr, i64, ptr, i64, i64, ptr, ptr, i64});
  int count = op.num_operands();
  if (count == 0) {
    b_.CreateCall(print,
                  {launch_context_, program_, text(op.text("message")), b_.getInt64(0), b_.getInt64(0),
                   llvm::ConstantPointerNull::get(ptr), llvm::ConstantPointerNull::get(ptr), b_.getInt64(1)});
    return;
  }
  for (int i = 0; i < count; ++i) {
    const ir::Value* v = op.operand(i);
    Buffer dense = make_buffer(v->type.dtype, v->type.pointer, {std::max<std::int64_t>(1, v->type.numel())});
    emit_dense(v, dense.pointer, [](Nest&, const Indices&, Value* x) { return x; });
    std::int64_t dtype = v->type.pointer ? -1 : static_cast<std::int64_t>(v->type.dtype);
    b_.CreateCall(print, {launch_context_, program_, text(i == 0 ? op.text("message") : " "),
                          b_.getInt64(static_cast<std::uint64_t>(dtype)), b_.getInt64(v->type.shape.size()),
                          extents_table(v->type), dense.pointer, b_.getInt64(i + 1 == count)});
  }
}

} // namespace kiln::cpu
