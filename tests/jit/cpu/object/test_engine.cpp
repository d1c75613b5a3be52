// Tests that objects are loaded, and that objects that cannot be linked are an error.
#include <kiln/dsl/error.h>
#include <kiln/jit/cpu/object/code_generation.h>
#include <kiln/jit/cpu/object/engine.h>
#include <kiln/jit/cpu/target.h>

#include <catch2/catch.hpp>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <vector>

using namespace kiln;
using Catch::Matchers::Contains;

namespace {

// An entry point that calls nothing, or a function that does not exist.
std::vector<char> entry_object(const char* callee) {
  llvm::LLVMContext context;
  llvm::Module module("entry", context);
  const auto machine = cpu::make_target_machine(cpu::host_target());
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  llvm::IRBuilder<> b(context);
  auto* type = llvm::FunctionType::get(b.getVoidTy(),
                                       {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false);
  auto* entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage, cpu::entry_name, module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", entry));
  if (callee) b.CreateCall(module.getOrInsertFunction(callee, llvm::FunctionType::get(b.getVoidTy(), false)));
  b.CreateRetVoid();
  const auto object = cpu::generate(module, *machine, llvm::CodeGenFileType::ObjectFile);
  return {object.begin(), object.end()};
}

} // namespace

TEST_CASE("code that cannot be linked is an error, and later code is loaded") {
  const std::vector<char> broken = entry_object("kiln_is_nowhere"), whole = entry_object(nullptr);
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(cpu::load_object(broken, "broken"), Contains("its code cannot be linked"));
    const auto code = cpu::load_object(whole, "whole");
    code->entry()(nullptr, nullptr, 0, 0);
  }
}
