// Implements the machine of emit/machine.h for NVIDIA GPUs, with NVVM intrinsics and inline PTX.
#pragma once

#include <kiln/jit/gpu/emit/machine.h>

namespace kiln::gpu {

class PtxMachine final : public Machine {
public:
  // `sm` is the number in the name of the architecture: 90 for sm_90a.
  PtxMachine(int warps, int sm) : warps_(warps), sm_(sm) {}
  llvm::Value* thread(IRBuilder& b) override;
  llvm::Value* program(IRBuilder& b) override;
  void barrier(IRBuilder& b) override;
  void warp_barrier(IRBuilder& b) override;
  void barrier_if(IRBuilder& b, llvm::Value* needed) override;
  llvm::Value* shuffle_xor(IRBuilder& b, llvm::Value* v, int mask) override;
  llvm::Value* shuffle_from(IRBuilder& b, llvm::Value* v, llvm::Value* lane) override;
  llvm::Value* fma_saturated(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, llvm::Value* z) override;
  llvm::Value* fma_down(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, llvm::Value* z) override;
  llvm::Value* exp2(llvm::IRBuilderBase& b, llvm::Value* x, Denormals denormals) override;
  llvm::Value* rsqrt(llvm::IRBuilderBase& b, llvm::Value* x) override;
  llvm::Value* load_if(IRBuilder& b, llvm::Type* type, llvm::Value* pointer, llvm::Value* wanted,
                       llvm::Value* otherwise, std::string_view cache) override;
  void store_if(IRBuilder& b, llvm::Value* v, llvm::Value* pointer, llvm::Value* wanted,
                std::string_view cache) override;
  bool has_atomic(const Atomic& what) const override;
  llvm::Value* atomic(IRBuilder& b, const Atomic& what, llvm::Value* pointer, llvm::Value* v) override;
  llvm::Value* swap_16_bits(IRBuilder& b, std::string_view order, std::string_view scope,
                            llvm::Value* pointer, llvm::Value* wanted, llvm::Value* desired) override;
  Values mma(IRBuilder& b, const Mma& what, const Values& a, const Values& b_words, const Values& c) override;
  llvm::Value* to_tf32(IRBuilder& b, llvm::Value* x) override;
  void assert_failed(IRBuilder& b, const std::string& message, const std::string& file, int line,
                     const std::string& kernel) override;
  void print(IRBuilder& b, const std::string& format, const Values& arguments) override;
  const char* scope_name(std::string_view scope) const override;
  unsigned global_space() const override { return 1; }
  unsigned shared_space() const override { return 3; }

private:
  int warps_, sm_;
};

} // namespace kiln::gpu
