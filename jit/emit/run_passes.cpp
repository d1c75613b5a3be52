// Builds and runs a pipeline with LLVM's PassBuilder.
#include <kiln/jit/emit/run_passes.h>

#include <kiln/dsl/error.h>

#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::emit {

void run_passes(llvm::Module& module, llvm::TargetMachine& machine, const std::string& passes) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // Without this argument, LLVM would create the file system itself, at its first use. Because LLVM is not
  // compiled with the thread sanitizer, the sanitizer would not see that this is finished before another
  // thread uses it.
  static const llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files = llvm::vfs::getRealFileSystem();
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(), std::nullopt, nullptr, files);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager pipeline;
  if (llvm::Error error = builder.parsePassPipeline(pipeline, passes))
    internal_error(llvm::toString(std::move(error)));
  pipeline.run(module, modules);
}

} // namespace kiln::emit
