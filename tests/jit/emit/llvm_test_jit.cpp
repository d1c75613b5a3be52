// Compiles and links LLVM modules of tests with LLJIT, and keeps their assembly.
#include <jit/cpu/other_cpus.h>
#include <jit/emit/llvm_test_jit.h>

#include <kiln/jit/emit/run_passes.h>

#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <stdexcept>

namespace kiln::test {

namespace {

template <class T> T unwrap(llvm::Expected<T> value) {
  if (!value) throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}

llvm::orc::JITTargetMachineBuilder machine_builder(const TestTarget& target) {
  const auto cpu = runnable_target(target.cpu);
  if (!cpu) throw std::runtime_error("this machine cannot run code for " + target.cpu);
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(llvm::sys::getProcessTriple())};
  builder.setCPU(cpu->cpu);
  builder.getFeatures() = llvm::SubtargetFeatures(cpu->features);
  if (!target.features.empty()) builder.addFeatures(llvm::SubtargetFeatures(target.features).getFeatures());
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  return builder;
}

} // namespace

TestJit::TestJit(const TestTarget& target) {
  auto builder = machine_builder(target);
  target_machine_ = unwrap(builder.createTargetMachine());
  llvm::orc::LLJITBuilder jit;
  jit.setJITTargetMachineBuilder(builder).setLinkProcessSymbolsByDefault(target.process_symbols);
  if (!target.process_symbols) jit.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  jit_ = unwrap(jit.create());
}

TestJit::~TestJit() = default;

void TestJit::add(const std::function<void(llvm::Module&)>& build) {
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("test", *context);
  module->setTargetTriple(target_machine_->getTargetTriple());
  module->setDataLayout(target_machine_->createDataLayout());
  build(*module);
  std::string report;
  llvm::raw_string_ostream report_stream(report);
  if (llvm::verifyModule(*module, &report_stream))
    throw std::runtime_error("the module is broken: " + report);

  emit::run_passes(*module, *target_machine_,
                   "function(early-cse,simplifycfg,instcombine<no-verify-fixpoint>,early-cse)");

  llvm::SmallString<0> assembly;
  llvm::raw_svector_ostream assembly_stream(assembly);
  llvm::legacy::PassManager printer;
  auto copy = llvm::CloneModule(*module);
  if (target_machine_->addPassesToEmitFile(printer, assembly_stream, nullptr,
                                           llvm::CodeGenFileType::AssemblyFile))
    throw std::runtime_error("the target cannot print assembly");
  printer.run(*copy);
  assembly_ = assembly.str();

  if (auto error = jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))))
    throw std::runtime_error(llvm::toString(std::move(error)));
}

std::uint64_t TestJit::address(const std::string& name) { return unwrap(jit_->lookup(name)).getValue(); }

void emit_elementwise_loop(
    llvm::Module& module, const std::string& name, llvm::Type* in, llvm::Type* out, unsigned lanes,
    const std::function<llvm::Value*(llvm::IRBuilder<>&, llvm::Value* x, llvm::Value* y)>& body) {
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* pointer = b.getPtrTy();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer, b.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  auto with_lanes = [&](llvm::Type* t) -> llvm::Type* {
    return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes);
  };
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* done = llvm::BasicBlock::Create(context, "done", function);
  b.SetInsertPoint(entry);
  b.CreateCondBr(b.CreateICmpSGT(function->getArg(3), b.getInt64(0)), loop, done);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  auto at = [&](unsigned argument, llvm::Type* element) {
    return b.CreateGEP(element, function->getArg(argument), b.CreateMul(i, b.getInt64(lanes)));
  };
  auto load = [&](unsigned argument) {
    return b.CreateAlignedLoad(with_lanes(in), at(argument, in), llvm::Align(1));
  };
  auto* x = load(0);
  auto* result = body(b, x, load(1));
  b.CreateAlignedStore(result, at(2, out), llvm::Align(1));
  auto* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(3)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
}

} // namespace kiln::test
