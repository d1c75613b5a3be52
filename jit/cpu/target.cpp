// Finds the host CPU and makes LLVM target machines.
#include <kiln/jit/cpu/target.h>

#include <kiln/dsl/error.h>

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace kiln::cpu {

namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    llvm::InitializeNativeTargetDisassembler();
  });
}

const llvm::Target* lookup(const llvm::Triple& triple) {
  initialize_llvm();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) throw TargetError("LLVM has no code generator for " + triple.str() + ": " + error);
  return target;
}

llvm::Triple host_triple() { return llvm::Triple(llvm::sys::getProcessTriple()); }

void derive(Target& target) {
  llvm::Triple triple = host_triple();
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      lookup(triple)->createMCSubtargetInfo(triple, target.cpu, target.features));
  auto has = [&](const char* feature) { return info->checkFeatures(std::string("+") + feature); };
  if (!triple.isX86()) return;
  target.avx2 = has("avx2");
  target.fma = has("fma");
  target.f16c = has("f16c");
  target.avx512 = has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq");
  target.avx512_bf16 = target.avx512 && has("avx512bf16");
  target.vector_bytes = target.avx512 ? 64 : target.avx2 ? 32 : 16;
}

Target find_host() {
  initialize_llvm();
  Target host;
  host.cpu = llvm::sys::getHostCPUName().str();
  std::vector<std::string> features;
  for (const auto& f : llvm::sys::getHostCPUFeatures())
    features.push_back((f.second ? "+" : "-") + f.first().str());
  std::sort(features.begin(), features.end()); // the text is part of cache keys
  for (const std::string& f : features)
    host.features += (host.features.empty() ? "" : ",") + f;
  derive(host);
  const char* wanted = std::getenv("KILN_CPU");
  if (!wanted || !*wanted || host.cpu == wanted) return host;
  Target chosen = named_target(wanted);
  if ((chosen.avx512 && !host.avx512) || (chosen.avx2 && !host.avx2) || (chosen.fma && !host.fma))
    throw UserError("KILN_CPU=" + std::string(wanted) + " has instructions that this CPU (" + host.cpu +
                    ") lacks; name an older CPU or unset KILN_CPU");
  return chosen;
}

} // namespace

const Target& host_target() {
  static const Target host = find_host();
  return host;
}

Target named_target(const std::string& cpu) {
  llvm::Triple triple = host_triple();
  std::unique_ptr<llvm::MCSubtargetInfo> info(lookup(triple)->createMCSubtargetInfo(triple, "", ""));
  if (!info->isCPUStringValid(cpu))
    throw UserError("LLVM knows no CPU named " + cpu + "; try haswell, skylake-avx512, znver4 or x86-64-v3");
  Target target;
  target.cpu = cpu;
  derive(target);
  return target;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  llvm::Triple triple = host_triple();
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // a * b + c is two roundings unless the kernel says fma
  std::unique_ptr<llvm::TargetMachine> machine(lookup(triple)->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) throw TargetError("LLVM cannot make a target machine for " + target.cpu);
  return machine;
}

} // namespace kiln::cpu
