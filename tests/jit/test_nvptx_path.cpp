// The path to NVIDIA GPUs is open: the tile IR of a vector add, through the same emitter, becomes PTX.
#include "cpu_runner.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <kiln/dsl/record.h>
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/kiln.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <unistd.h>

using namespace kiln;

namespace {
KILN_DIM(B);
} // namespace

TEST_CASE("the tile IR of a vector add goes through LLVM's NVPTX target") {
  auto recorded = record("add", [](View<const float, 1> a, View<const float, 1> b, View<float, 1> c) {
    auto [i] = program_tile(c, B);
    c.tile(i).store(a.tile(i).load() + b.tile(i).load());
  });
  auto lowered = passes::lower_generic(*recorded, {Config{B = 128}, {}});

  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  REQUIRE(target);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "sm_80", "+ptx80", {}, llvm::Reloc::PIC_));

  llvm::LLVMContext context;
  llvm::Module module("add", context);
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  cpu::Target scalar; // one lane a step: a thread has no vectors
  scalar.vector_bytes = 4;
  cpu::KernelEmitter(module, *lowered, scalar, {}, {}, {}).run();
  llvm::Function* entry = module.getFunction("kiln_entry");
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  entry->removeFnAttr("target-cpu");

  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  REQUIRE_FALSE(machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile));
  passes.run(module);
  std::string ptx(text.begin(), text.end());
  INFO(ptx);
  CHECK(ptx.find(".target sm_80") != std::string::npos);
  CHECK(ptx.find(".visible .entry kiln_entry") != std::string::npos);
  CHECK(ptx.find("add.rn.f32") != std::string::npos);

  if (std::system("command -v ptxas > /dev/null 2>&1") != 0) {
    WARN("no ptxas on this machine: the PTX was not assembled");
    return;
  }
  std::string path = "kiln-nvptx-" + std::to_string(getpid()) + ".ptx";
  std::ofstream(path) << ptx;
  CHECK(std::system(("ptxas -arch=sm_80 -o /dev/null " + path).c_str()) == 0);
  std::remove(path.c_str());
}
