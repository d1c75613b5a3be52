// Emits, optimises with a short list of cheap passes, and assembles. The emitter writes code in its final
// form, so the O3 pipeline would only double the time (it unrolls the loops around the edges).
#include <kiln/jit/cpu/compiler.h>

#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

namespace kiln::cpu {

namespace {

constexpr const char* pass_list =
    "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse,dse)";

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, pass_list))
    internal_error(llvm::toString(std::move(error)));
  passes.run(module, modules);
}

llvm::SmallVector<char, 0> generate(llvm::Module& module, llvm::TargetMachine& machine,
                                    llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind))
    internal_error("LLVM cannot write this kind of file");
  passes.run(module);
  return bytes;
}

} // namespace

CompiledObject compile(const ir::Kernel& kernel, const Target& target, const CompileOptions& options) {
  CompiledObject result;
  llvm::LLVMContext context;
  llvm::Module module(kernel.name, context);
  std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(target);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());

  KernelEmitter emitter(module, kernel, target,
                        NumberOptions{math_options(*machine), convert_options(*machine)},
                        dot_target(*machine), {options.debug, options.line_info, options.deferred_columns});
  emitter.run();
  result.scratch_bytes = emitter.scratch_bytes();
  if (options.keep_llvm) result.llvm_before = text_of(module);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream))
    internal_error("kernel " + kernel.name + " lowered to invalid LLVM IR: " + problems + "\n" +
                   text_of(module));
  optimize(module, *machine);
  if (options.keep_llvm) result.llvm_after = text_of(module);
  if (options.keep_assembly) {
    auto copy = llvm::CloneModule(module);
    auto text = generate(*copy, *machine, llvm::CodeGenFileType::AssemblyFile);
    result.assembly.assign(text.begin(), text.end());
  }
  auto object = generate(module, *machine, llvm::CodeGenFileType::ObjectFile);
  result.object.assign(object.begin(), object.end());
  return result;
}

} // namespace kiln::cpu
