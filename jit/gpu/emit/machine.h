// Declares the interface for operations of a GPU that LLVM's own instructions do not express.
//
// The emitter uses it for thread numbers, shuffles, barriers, accesses under a predicate and the like, so
// that the same emitter produces PTX and, in tests, code for threads that are simulated on the CPU.
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

  virtual llvm::Value* thread(IRBuilder& b) = 0;  // its number in the block, i32
  virtual llvm::Value* program(IRBuilder& b) = 0; // its number in the grid, i64

  // All threads of the block (or of the warp) arrive before any of them continues. This orders their accesses
  // to shared and global memory.
  virtual void barrier(IRBuilder& b) = 0;
  virtual void warp_barrier(IRBuilder& b) = 0;
  // A barrier of the block if `needed`, which must be the same in all threads.
  virtual void barrier_if(IRBuilder& b, llvm::Value* needed) = 0;

  // Shuffles of 32-bit values, in which all 32 lanes take part.
  virtual llvm::Value* shuffle_xor(IRBuilder& b, llvm::Value* v, int mask) = 0;
  virtual llvm::Value* shuffle_from(IRBuilder& b, llvm::Value* v, llvm::Value* lane) = 0;

  // Of f32: x * y + z clamped to [0, 1], where NaN becomes 0 (saturated), and rounded towards minus infinity
  // (down).
  virtual llvm::Value* fma_saturated(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y,
                                     llvm::Value* z) = 0;
  virtual llvm::Value* fma_down(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, llvm::Value* z) = 0;
  // Of f32, with an error of at most 2 ulp. Flushed: denormal operands and results become zero.
  enum class Denormals { Kept, Flushed };
  virtual llvm::Value* exp2(llvm::IRBuilderBase& b, llvm::Value* x, Denormals denormals) = 0;
  virtual llvm::Value* rsqrt(llvm::IRBuilderBase& b, llvm::Value* x) = 0;

  // Accesses to global memory under a predicate. `type` is an integer of 8 to 64 bits, a vector of 2 or 4
  // integers of 32 bits, or a vector of 2 integers of 64 bits, and `pointer` is aligned to the size of the
  // type. If `wanted` is false, no memory is accessed, and a load gives `otherwise`. `cache` is a hint: the
  // name of a cache operator of PTX, such as "cg"; any other text means the default.
  virtual llvm::Value* load_if(IRBuilder& b, llvm::Type* type, llvm::Value* pointer, llvm::Value* wanted,
                               llvm::Value* otherwise, std::string_view cache) = 0;
  virtual void store_if(IRBuilder& b, llvm::Value* v, llvm::Value* pointer, llvm::Value* wanted,
                        std::string_view cache) = 0;

  // An atomic operation on global memory. `kind`, `order` and `scope` are those of atomic_rmw.
  struct Atomic {
    std::string_view kind, order, scope;
    DType dtype;
    int elements = 1; // neighbours in one word, each of which is atomic
  };
  // Whether there is an instruction for it.
  virtual bool has_atomic(const Atomic& what) const = 0;
  // Emits that instruction. The operand and the result, which is the old value, are the bits of the elements.
  virtual llvm::Value* atomic(IRBuilder& b, const Atomic& what, llvm::Value* pointer, llvm::Value* v) = 0;
  // A compare-and-swap of 16 bits in global memory, which accesses no others; returns the old bits.
  virtual llvm::Value* swap_16_bits(IRBuilder& b, std::string_view order, std::string_view scope,
                                    llvm::Value* pointer, llvm::Value* wanted, llvm::Value* desired) = 0;
  // One mma.sync.m16n8 of a warp, 32 bytes deep. `a` has 4 and `b` has 2 words of factors, `c` has 4 sums,
  // and the result is the new sums. Factors are f16, bf16 (both factors alike) or tf32 (given as F32, made by
  // to_tf32), with sums in f32; or 8-bit integers, with sums in i32 that wrap.
  struct Mma {
    DType a, b;
  };
  virtual Values mma(IRBuilder& b, const Mma& what, const Values& a, const Values& b_words,
                     const Values& c) = 0;
  // Rounds an f32 to tf32. The result is a word.
  virtual llvm::Value* to_tf32(IRBuilder& b, llvm::Value* x) = 0;

  // For debugging: assert_failed ends the launch with a message, and print prints like printf (32-bit and
  // 64-bit integers, doubles and pointers).
  virtual void assert_failed(IRBuilder& b, const std::string& message, const std::string& file, int line,
                             const std::string& kernel) = 0;
  virtual void print(IRBuilder& b, const std::string& format, const Values& arguments) = 0;
  llvm::Value* text(IRBuilder& b, const std::string& s) { return b.CreateGlobalString(s); }

  // The name that LLVM has for a scope of atomic_rmw.
  virtual const char* scope_name(std::string_view scope) const = 0;

  // The address spaces of global and of shared memory.
  virtual unsigned global_space() const = 0;
  virtual unsigned shared_space() const = 0;
};

} // namespace kiln::gpu
