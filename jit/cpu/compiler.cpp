// Compiles a kernel: CPU rewrites, emission, separate compilation of shared routines, code generation.
#include <kiln/jit/cpu/compiler.h>

#include <kiln/jit/cpu/abi.h>
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/emit/outline.h>
#include <kiln/jit/cpu/object/code_generation.h>
#include <kiln/jit/cpu/object/routines.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/emit/module_text.h>

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

namespace kiln::cpu {

CompiledObject compile(const ir::Kernel& bound, const Target& target, const CompileOptions& options) {
  const auto prepared = lower_for_cpu(bound);
  const ir::Kernel& kernel = *prepared;
  CompiledObject result;
  llvm::LLVMContext context;
  context.setDiscardValueNames(!options.keep_llvm); // names are only needed for the text, and take time
  llvm::Module module(kernel.name, context);
  std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(target);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());

  KernelEmitter emitter(
      module, kernel, target, NumberOptions{math_options(*machine), convert_options(*machine)},
      dot_target(*machine, target.sve_bytes), {options.debug, options.line_info, options.deferred_columns});
  emitter.run();
  result.scratch_bytes = emitter.scratch_bytes();
  if (options.keep_llvm) result.llvm_before = emit::text_of(module);
  RoutineObjects routines;
  if (options.share_routines) routines = take_routines(module, target);
  outline_parts(*module.getFunction(entry_name), emitter.parts(), options.whole_instructions);
  emit::verify(module);
  optimize(module, *machine);
  if (options.keep_llvm) result.llvm_after = emit::text_of(module);
  if (options.keep_assembly) {
    auto copy = llvm::CloneModule(module);
    auto text = generate(*copy, *machine, llvm::CodeGenFileType::AssemblyFile);
    result.assembly.assign(text.begin(), text.end());
  }
  auto object = generate(module, *machine, llvm::CodeGenFileType::ObjectFile);
  result.object.assign(object.begin(), object.end());
  result.routines = wait_for(routines);
  return result;
}

} // namespace kiln::cpu
