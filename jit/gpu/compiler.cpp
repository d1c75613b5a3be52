// Drives the compilation of a kernel to PTX: checks, layouts, LLVM IR, passes, and LLVM's NVPTX target.
#include <kiln/jit/gpu/compiler.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/emit/module_text.h>
#include <kiln/jit/emit/out_of_memory.h>
#include <kiln/jit/emit/run_passes.h>
#include <kiln/jit/emit/write_code.h>
#include <kiln/jit/gpu/legality.h>
#include <kiln/jit/gpu/ptx_machine.h>
#include <kiln/jit/gpu/register_need.h>

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <cctype>
#include <mutex>

namespace kiln::gpu {

int lowest_ptx(const std::string& arch) {
  if (arch == "sm_80") return 70;
  if (arch == "sm_90a") return 80;
  if (arch == "sm_100a") return 86;
  throw UserError("Kiln knows the GPU architectures sm_80, sm_90a and sm_100a, not \"" + arch + "\"");
}

std::string entry_name(const std::string& kernel) {
  std::string name;
  for (char c : kernel)
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '$' ? c : '_';
  const bool starts = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && name != "_";
  return starts ? name : "kernel_" + name;
}

namespace {

// Guesses whether a kernel should have `.minnctapersm 1` (block_bound.h), from the registers that the tiles
// of a thread take.
//
// Without the directive, ptxas spills large tiles if that lets more blocks fit. With it, ptxas takes
// registers freely, which can halve the number of blocks that fit: a softmax of 4096 floats takes 45
// registers instead of 40 with 8 warps, and 80 instead of 56 with 4 warps. (A limit of 160 registers would do
// for the latter too, but then products of activations spill 32 bytes.) For a kernel so small that the blocks
// fit anyway, the directive saves two instructions of the 54 of vector_add.
//
// The limits are a guess: with a need of 48 and without the directive, activation_mul of unaligned rows
// spills 8 bytes. If the guess spills, the other way is tried. Emitting the arithmetic in another order does
// not reduce spills: ptxas has its own order, and moving every value next to its use changed nothing.
bool one_block_will_do(const RegisterNeed& need, int warps) {
  return need.at_once >= 48 || (need.at_once <= 24 && warps <= 8);
}

// The registers of a thread; ptxas raises a lower limit to this one.
constexpr int fewest_registers = 24, most_registers = 255;

// The shared memory that a block may have if its launch requests it.
std::int64_t shared_bytes_of(const std::string& arch) {
  return (arch == "sm_80" ? 163 : 227) * std::int64_t{1024};
}

void check_block(const std::string& kernel, std::int64_t warps, std::int64_t registers) {
  if (warps < 1 || warps > 32 || (warps & (warps - 1)) != 0)
    throw UserError("kernel " + kernel + ": num_warps is " + std::to_string(warps) +
                    "; a block has 1, 2, 4, 8, 16 or 32 warps");
  if (registers != 0 && (registers < fewest_registers || registers > most_registers))
    throw UserError("kernel " + kernel + ": max_registers is " + std::to_string(registers) +
                    "; a thread may have " + std::to_string(fewest_registers) + " to " +
                    std::to_string(most_registers) + "; leave it out for no limit");
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    emit::throw_when_out_of_memory();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  internal_check(found != nullptr, "LLVM has no NVPTX target: " + error);
  const int ptx = target.ptx ? target.ptx : lowest_ptx(target.arch);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // SEMANTICS: no fma but those of the kernel
  return std::unique_ptr<llvm::TargetMachine>(
      found->createTargetMachine(triple, target.arch, "+ptx" + std::to_string(ptx), options,
                                 llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

enum class Hoisting { Certain, Speculative };

Hoisting hoisting_of(const ir::Kernel& kernel) {
  int products = 0;
  ir::walk(kernel.body,
           [&](const ir::Op& op) { products += op.is(ir::Opcode::Dot) && mma_factors(op).has_value(); });
  return products > 1 ? Hoisting::Speculative : Hoisting::Certain;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine, Hoisting hoisting) {
  // Hoisting speculatively fills the registers of a thread with values that only tiles at an edge need. But
  // if several products follow each other, ptxas does worse without it: attention {BM=128,BN=64,D=128} with 8
  // warps spills 36 to 76 bytes, and 4 to 12 with it.
  const std::string licm = hoisting == Hoisting::Speculative ? "licm" : "licm<no-allowspeculation>";
  emit::run_passes(
      module, machine,
      "always-inline,function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(" + licm +
          "),gvn,instcombine<no-verify-fixpoint>,dse,simplifycfg)");
}

} // namespace

PtxOptions ptx_options(const std::string& kernel, const Config& config) {
  const std::int64_t warps = config.get(num_warps.name).value_or(default_warps);
  const std::int64_t registers = config.get(max_registers.name).value_or(0);
  check_block(kernel, warps, registers);
  return {.warps = static_cast<int>(warps), .max_registers = static_cast<int>(registers)};
}

std::string unused_options(const Config& config) {
  std::string text;
  for (const Option* option : {&num_ctas, &num_stages})
    if (config.get(option->name)) text += (text.empty() ? "" : ", ") + std::string(option->name);
  return text;
}

Ptx compile_to_ptx(const ir::Kernel& lowered, const Target& target, const PtxOptions& options) {
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
  llvm::LLVMContext context;
  llvm::Module module(lowered.name, context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());

  check_block(lowered.name, options.warps, options.max_registers);
  check_legal(lowered, target.arch);
  const LayoutPlan plan = plan_layouts(lowered, options.warps);
  check_sizes(lowered, plan);
  PtxMachine instructions(options.warps, std::stoi(target.arch.substr(3)));
  emit::NumberOptions numbers;
  numbers.math = {.has_fma = true, .avx512 = false, .max_nan = true};
  numbers.convert = {.has_f16 = true, .has_bf16 = true, .saturates = true};
  KernelEmitter emitter(module, lowered, plan, numbers, instructions, options.debug);
  if (options.line_info) emitter.keep_lines();
  emitter.run();
  Ptx result;
  result.shape = emitter.shape();
  if (const std::int64_t most = shared_bytes_of(target.arch); result.shape.shared_bytes > most)
    throw UserError("kernel " + lowered.name + ": its tiles need " +
                    std::to_string(result.shape.shared_bytes) + " bytes of shared memory, and a block on " +
                    target.arch + " has " + std::to_string(most) + "; choose smaller tiles");
  llvm::Function* entry = module.getFunction(lowered.name);
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  entry->setName(entry_name(lowered.name));
  result.entry = entry->getName().str();
  const std::string threads = std::to_string(32 * options.warps);
  entry->addFnAttr("nvvm.reqntid", threads + ",1,1");
  if (options.max_registers != 0)
    entry->addFnAttr("nvvm.maxnreg", std::to_string(options.max_registers));
  else if (one_block_will_do(register_need(lowered, plan), options.warps))
    entry->addFnAttr("nvvm.minctasm", "1");
  if (options.keep_llvm) result.llvm = emit::text_of(module);
  emit::verify(module);
  optimize(module, *machine, hoisting_of(lowered));
  const auto text =
      emit::write_code(module, *machine, llvm::CodeGenFileType::AssemblyFile, emit::StrengthReduction::yes);
  result.text.assign(text.begin(), text.end());
  return result;
}

} // namespace kiln::gpu
