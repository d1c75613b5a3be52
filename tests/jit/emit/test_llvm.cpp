// Tests that the parts of LLVM that Kiln uses are linked in and work: ORC, both targets, passes, listeners.
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <llvm-c/Target.h>
#include <llvm/ExecutionEngine/JITEventListener.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <random>
#include <string>

using namespace llvm;

namespace {
constexpr const char* multiply_add = R"(
define i64 @multiply_add(i64 %a, i64 %b, i64 %c) {
  %product = mul i64 %a, %b
  %sum = add i64 %product, %c
  ret i64 %sum
}
)";

std::unique_ptr<Module> parse(LLVMContext& context, const char* text) {
  SMDiagnostic error;
  return parseIR(MemoryBufferRef(text, "test"), error, context);
}
} // namespace

TEST_CASE("LLVM compiles a function for this CPU and it runs") {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<LLVMContext>();
  auto module = parse(*context, multiply_add);
  REQUIRE(module);
  auto jit = cantFail(orc::LLJITBuilder().create());
  cantFail(jit->addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))));
  auto* function = cantFail(jit->lookup("multiply_add"))
                       .toPtr<std::int64_t (*)(std::int64_t, std::int64_t, std::int64_t)>();
  const auto seed = kiln::test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t a = random() >> 4, b = random() >> 4, c = random();
    CHECK(function(a, b, c) == a * b + c);
  }
}

TEST_CASE("LLVM optimises and writes PTX") {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  LLVMContext context;
  auto module = parse(context, multiply_add);
  REQUIRE(module);
  std::string error;
  const Triple triple("nvptx64-nvidia-cuda");
  const Target* target = TargetRegistry::lookupTarget(triple, error);
  INFO(error);
  REQUIRE(target);
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(triple, "sm_90a", "", {}, {}));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  PassBuilder builder(machine.get());
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(*module, modules);
  SmallString<0> ptx;
  raw_svector_ostream out(ptx);
  legacy::PassManager passes;
  REQUIRE_FALSE(machine->addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile));
  passes.run(*module);
  CHECK(ptx.str().contains(".target sm_90a"));
  CHECK(ptx.str().contains("mad.lo.s64"));
}

TEST_CASE("LLVM registers JIT-compiled code with gdb") {
  CHECK(JITEventListener::createGDBRegistrationListener() != nullptr);
}
