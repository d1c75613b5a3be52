// Detects the host CPU, derives what its code may use, and creates LLVM target machines.
#include <kiln/jit/cpu/target.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/emit/out_of_memory.h>

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiln::cpu {

namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    emit::throw_when_out_of_memory();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
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

llvm::Triple triple_of(const Target& target) {
  return target.triple.empty() ? host_triple() : llvm::Triple(target.triple);
}

std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const Target& target) {
  llvm::Triple triple = triple_of(target);
  return std::unique_ptr<llvm::MCSubtargetInfo>(
      lookup(triple)->createMCSubtargetInfo(triple, target.cpu, target.features));
}

bool has(const llvm::MCSubtargetInfo& info, std::string_view feature) {
  return info.checkFeatures("+" + std::string(feature));
}

// LLVM ends the process if it generates 64-bit code for an i386.
bool runs_64_bit_code(const llvm::MCSubtargetInfo& info) {
  return !info.getTargetTriple().isX86() || has(info, "64bit");
}

// Features whose instructions only operating systems use, or intrinsics that Kiln does not call. Virtual
// machines often hide them, and the code of kernels does not depend on them.
constexpr std::string_view never_generated[] = {
    "cldemote", "clflushopt", "clwb",     "clzero", "enqcmd",    "fsgsbase", "hreset",    "invpcid",  "kl",
    "lwp",      "movdir64b",  "movdiri",  "mwaitx", "pconfig",   "pku",      "prefetchi", "ptwrite",  "rdpid",
    "rdpru",    "rdrnd",      "rdseed",   "rtm",    "serialize", "sgx",      "shstk",     "tsxldtrk", "uintr",
    "usermsr",  "waitpkg",    "wbnoinvd", "widekl", "xsave",     "xsavec",   "xsaveopt",  "xsaves"};

// The names of LLVM's features that decide which instructions code may contain: all that LLVM detects in a
// host.
std::vector<std::string> instruction_features() {
  std::vector<std::string> names;
  for (const auto& f : llvm::sys::getHostCPUFeatures())
    if (std::find(std::begin(never_generated), std::end(never_generated), std::string_view(f.first())) ==
        std::end(never_generated))
      names.push_back(f.first().str());
  std::sort(names.begin(), names.end());
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

// A target for a CPU of this triple, with that CPU's own features.
Target bare_target(const std::string& cpu, const std::string& triple) {
  Target target;
  target.triple = triple, target.cpu = cpu;
  return target;
}

// The names of the CPUs for which `choose` returns true.
template <class F> std::string cpu_names(const std::string& triple, F&& choose) {
  std::vector<std::string> names;
  for (const auto& cpu : subtarget(bare_target("", triple))->getAllProcessorDescriptions()) {
    const Target target = bare_target(cpu.Key, triple);
    if (runs_64_bit_code(*subtarget(target)) && choose(target)) names.push_back(cpu.Key);
  }
  return joined(names);
}

// The length of SVE registers, which LLVM's features do not include. It is 16 bytes on other CPUs than these,
// where NEON does the same.
int sve_bytes(const std::string& cpu) { return cpu == "a64fx" ? 64 : cpu == "neoverse-v1" ? 32 : 0; }

void derive(Target& target) {
  auto info = subtarget(target);
  auto has = [&](const char* feature) { return cpu::has(*info, feature); };
  if (info->getTargetTriple().isAArch64()) {
    if (has("sve")) target.sve_bytes = sve_bytes(target.cpu);
    target.vector_bytes = std::max(16, target.sve_bytes);
    target.vector_registers = 32;
  }
  if (!info->getTargetTriple().isX86()) return;
  target.avx2 = has("avx2");
  target.fma = has("fma");
  target.f16c = has("f16c");
  target.avx512 = has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq");
  if (has("amx-tile")) target.l2_bytes = tuning::amx_l2_bytes;
  target.slow_l3 = tuning::l3_is_slow(target.avx512, has("sse4a"));
  target.amx_bf16 = target.avx512 && has("avx512bf16") && has("amx-tile") && has("amx-bf16");
  target.amx_int8 = target.avx512 && has("avx512vnni") && has("amx-tile") && has("amx-int8");
  target.avx512_bf16 = target.avx512 && has("avx512bf16");
  target.vector_bytes = target.avx512 ? 64 : target.avx2 ? 32 : 16;
  target.vector_registers = target.avx512 ? 32 : 16;
  if (target.avx2 && !target.avx512) target.registers_per_step = tuning::avx2_registers_per_step;
}

// Linux grants AMX's tile registers only to processes that request them; later threads have them as well.
bool request_amx() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

Target find_host() {
  initialize_llvm();
  Target host;
  host.cpu = llvm::sys::getHostCPUName().str();
  for (const auto& [feature, usable] : host_features()) // in order, since the text is part of cache keys
    host.features += (host.features.empty() ? "" : ",") + ((usable ? "+" : "-") + feature);
  derive(host);
  const std::string& wanted = environment_options().cpu;
  if (wanted.empty() || host.cpu == wanted) return host;
  Target chosen = named_target(wanted);
  if (auto missing = missing_features(chosen, host); !missing.empty())
    throw UserError(
        "KILN_CPU=" + wanted + " has instructions that this CPU (" + host.cpu +
        ") lacks: " + joined(missing) + "; unset KILN_CPU or choose among " +
        cpu_names("", [&](const Target& other) { return missing_features(other, host).empty(); }));
  return chosen;
}

} // namespace

std::map<std::string, bool> host_features() {
  const auto found = llvm::sys::getHostCPUFeatures();
  const bool amx = found.lookup("amx-tile") && request_amx();
  std::map<std::string, bool> features;
  for (const auto& f : found)
    features[f.first().str()] = f.second && (amx || !f.first().starts_with("amx-"));
  return features;
}

const Target& host_target() {
  static const auto* host = new Target(find_host()); // never destroyed, since static objects may compile
  return *host;
}

Target named_target(const std::string& cpu, const std::string& triple) {
  Target target = bare_target(cpu, triple);
  auto refuse = [&](const std::string& what) {
    throw UserError(what + "; choose among " + cpu_names(triple, [](const Target&) { return true; }));
  };
  if (!subtarget(bare_target("", triple))->isCPUStringValid(cpu)) refuse("LLVM knows no CPU named " + cpu);
  if (!runs_64_bit_code(*subtarget(target))) refuse("the CPU " + cpu + " does not run 64-bit code");
  derive(target);
  return target;
}

std::vector<std::string> missing_features(const Target& wanted, const Target& present) {
  auto need = subtarget(wanted), have = subtarget(present);
  std::vector<std::string> missing;
  for (const std::string& feature : instruction_features())
    if (has(*need, feature) && !has(*have, feature)) missing.push_back(feature);
  return missing;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  llvm::Triple triple = triple_of(target);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // a * b + c rounds twice unless the kernel uses fma
  options.EmitStackSizeSection = true;                // for largest_stack_frame
  std::unique_ptr<llvm::TargetMachine> machine(lookup(triple)->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) throw TargetError("LLVM cannot make a target machine for " + target.cpu);
  return machine;
}

} // namespace kiln::cpu
