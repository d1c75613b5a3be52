// What a kernel asks of the machine beyond LLVM's own instructions.
//
// The emitter goes through this interface for thread numbers, shuffles, barriers and accesses under a
// predicate, so that one emitter serves PTX and, in tests, threads that are simulated on the CPU.
#pragma once

#include <kiln/dsl/dtype.h>
#include <kiln/jit/emit/lanes.h>

#include <string>
#include <string_view>

namespace kiln::gpu {

using emit::IRBuilder;
using emit::Values;

class Machine {
public:
  virtual ~Machine() = default;

  virtual llvm::Value* thread(IRBuilder& b) = 0;  // i32, in the block
  virtual llvm::Value* program(IRBuilder& b) = 0; // i64, in the grid

  // Every thread of the block (of the warp) arrives before any goes on; orders shared and global memory among
  // them.
  virtual void barrier(IRBuilder& b) = 0;
  virtual void warp_barrier(IRBuilder& b) = 0;
  // A barrier where `needed`, which is the same in all threads.
  virtual void barrier_if(IRBuilder& b, llvm::Value* needed) = 0;

  // Of 32-bit values; all 32 lanes take part.
  virtual llvm::Value* shuffle_xor(IRBuilder& b, llvm::Value* v, int mask) = 0;
  virtual llvm::Value* shuffle_from(IRBuilder& b, llvm::Value* v, llvm::Value* lane) = 0;

  // Of f32: x * y + z drawn to [0, 1], where NaN becomes 0, and rounded towards minus infinity.
  virtual llvm::Value* fma_saturated(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y,
                                     llvm::Value* z) = 0;
  virtual llvm::Value* fma_down(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, llvm::Value* z) = 0;
  // Of f32, to 2 ulp. Flushed: a denormal operand or result counts as zero.
  enum class Denormals { Kept, Flushed };
  virtual llvm::Value* exp2(llvm::IRBuilderBase& b, llvm::Value* x, Denormals denormals) = 0;
  virtual llvm::Value* rsqrt(llvm::IRBuilderBase& b, llvm::Value* x) = 0;

  // `type` is an integer of 8 to 64 bits or a vector of 2 or 4 of 32 or 2 of 64; `pointer` is to global
  // memory, aligned to all of it. Where `wanted` is false nothing is touched and the result is `otherwise`.
  // `cache` is a hint, PTX's name of a cache operator ("cg"); others, and none, are the default.
  virtual llvm::Value* load_if(IRBuilder& b, llvm::Type* type, llvm::Value* pointer, llvm::Value* wanted,
                               llvm::Value* otherwise, std::string_view cache) = 0;
  virtual void store_if(IRBuilder& b, llvm::Value* v, llvm::Value* pointer, llvm::Value* wanted,
                        std::string_view cache) = 0;

  // An atomic on global memory. `kind`, `order` and `scope` as in atomic_rmw.
  struct Atomic {
    std::string_view kind, order, scope;
    DType dtype;
    int elements = 1; // neighbours in one word, atomic each
  };
  // Whether there is an instruction for it.
  virtual bool has_atomic(const Atomic& what) const = 0;
  // That instruction: operand and result are the elements' bits.
  virtual llvm::Value* atomic(IRBuilder& b, const Atomic& what, llvm::Value* pointer, llvm::Value* v) = 0;
  // One mma.sync.m16n8 of the warp, 32 bytes deep: a has 4 and b 2 words of factors, c 4 sums; returns the
  // new sums. Factors are f16 or bf16 (both alike) or tf32 (F32, as to_tf32 makes them), with sums in f32, or
  // 8-bit integers, with sums in i32 that wrap.
  struct Mma {
    DType a, b;
  };
  virtual Values mma(IRBuilder& b, const Mma& what, const Values& a, const Values& b_words,
                     const Values& c) = 0;
  // An f32 rounded to tf32, as a word.
  virtual llvm::Value* to_tf32(IRBuilder& b, llvm::Value* x) = 0;

  // Debugging: ends the launch with a message; prints as printf does (32- and 64-bit integers, doubles,
  // pointers).
  virtual void assert_failed(IRBuilder& b, const std::string& message, const std::string& file, int line,
                             const std::string& kernel) = 0;
  virtual void print(IRBuilder& b, const std::string& format, const Values& arguments) = 0;
  llvm::Value* text(IRBuilder& b, const std::string& s) { return b.CreateGlobalString(s); }

  // LLVM's name of a scope of atomic_rmw.
  virtual const char* scope_name(std::string_view scope) const = 0;

  // Address spaces of pointers to global and to shared memory.
  virtual unsigned global_space() const = 0;
  virtual unsigned shared_space() const = 0;
};

} // namespace kiln::gpu
