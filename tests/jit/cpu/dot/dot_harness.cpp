// Builds a module with one product, runs the CPU's passes, and links the module with LLJIT.
#include "dot_harness.h"
#include "amx_emulation.h"
#include "jit/cpu/other_cpus.h"
#include <ctime>
#include <kiln/jit/cpu/object/code_generation.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <stdexcept>

namespace kiln::test {

namespace {

// The CPU time of this thread, which other work on the machine does not affect.
double milliseconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

llvm::orc::JITTargetMachineBuilder machine_builder(const std::string& cpu) {
  const auto target = runnable_target(cpu);
  if (!target) throw std::runtime_error("this machine cannot run code for " + cpu);
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(llvm::sys::getProcessTriple())};
  builder.setCPU(target->cpu);
  builder.getFeatures() = llvm::SubtargetFeatures(target->features);
  return builder;
}

void build(llvm::Module& module, const cpu::DotShape& shape, const cpu::DotTarget& target) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
  auto* type = llvm::FunctionType::get(
      b.getVoidTy(), {ptr, i64, i64, ptr, i64, i64, ptr, i64, i64, i64, i64, b.getInt8Ty(), ptr, ptr, i64},
      false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "product", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  cpu::DotContext dot{b, shape, target};
  cpu::emit_dot_accumulate(dot, {.a = {f->getArg(0), f->getArg(1), f->getArg(2)},
                                 .b = {f->getArg(3), f->getArg(4), f->getArg(5)},
                                 .c = f->getArg(6),
                                 .c_row_stride = f->getArg(7),
                                 .m = f->getArg(8),
                                 .n = f->getArg(9),
                                 .k = f->getArg(10),
                                 .accumulate = b.CreateIsNotNull(f->getArg(11)),
                                 .scratch = f->getArg(12),
                                 .rounded = f->getArg(13),
                                 .rounded_row_stride = f->getArg(14)});
  b.CreateRetVoid();
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream)) throw std::runtime_error(problems);
}

} // namespace

bool host_runs(const std::string& cpu) { return runnable_target(cpu).has_value(); }

CompiledDot::CompiledDot(const cpu::DotShape& shape, const std::string& cpu,
                         const std::function<void(cpu::DotTarget&)>& adjust, Amx amx) {
  auto builder = machine_builder(cpu);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  auto machine = llvm::cantFail(builder.createTargetMachine());
  target = cpu::dot_target(*machine);
  if (adjust) adjust(target);
  scratch_bytes = cpu::dot_scratch_bytes(shape, target);

  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("dot", *context);
  module->setDataLayout(machine->createDataLayout());
  module->setTargetTriple(machine->getTargetTriple());
  double start = milliseconds();
  build(*module, shape, target);
  const bool emulates = amx == Amx::Emulated;
  if (emulates) emulate_amx(*module);
  build_ms = milliseconds() - start;
  start = milliseconds();
  cpu::optimize(*module, *machine);
  optimise_ms = milliseconds() - start;

  jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create());
  if (emulates) define_amx_functions(*jit_);
  llvm::cantFail(jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  start = milliseconds();
  run = llvm::cantFail(jit_->lookup("product")).toPtr<DotFunction>();
  codegen_ms = milliseconds() - start;
}

CompiledDot::~CompiledDot() = default;

} // namespace kiln::test
