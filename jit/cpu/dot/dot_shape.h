// Describes a matrix product for which code is emitted: element types, extents, strides, operands and target.
//
// These are the types that callers of dot.h and the analyses of ../facts share. This header declares nothing
// that emits code and includes nothing of LLVM.
#pragma once

#include <cstdint>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/cpu/tuning.h>

namespace llvm {
class TargetMachine;
class Value;
} // namespace llvm

namespace kiln::cpu {

enum class DotIsa : std::uint8_t { Generic, Avx2, Avx512, Neon, Sve };

// The instructions that the generated code may use. `bf16_dot` is the dot product of pairs of bf16, at twice
// the rate of f32; it treats denormals as zero (dsl/SEMANTICS.md allows that). `vnni` is the dot product of
// four bytes; on AArch64 both operands must have the same signedness unless `i8mm`. AMX does both on tiles.
struct DotTarget {
  DotIsa isa = DotIsa::Generic;
  bool x86 = false;
  bool f16c = false;
  bool bf16_dot = false;
  bool vnni = false;
  bool i8mm = false;
  bool amx_bf16 = false, amx_int8 = false;
  bool slow_l2 = false;                  // as in tuning.h
  bool hardware_prefetches_rows = false; // as in tuning.h
  int sve_bytes = 0;                     // of one register of Sve: 32 or 64
  std::int64_t l2_bytes = tuning::usual_l2_bytes;

  bool has_masks() const { return isa == DotIsa::Avx2 || isa == DotIsa::Avx512 || isa == DotIsa::Sve; }
  int vector_bytes() const {
    return isa == DotIsa::Sve ? sve_bytes : isa == DotIsa::Avx512 ? 64 : isa == DotIsa::Avx2 ? 32 : 16;
  }
};
// Derives the target from LLVM's. `sve_bytes` is the length of AArch64's SVE registers if code may use them,
// else 0.
DotTarget dot_target(const llvm::TargetMachine& machine, int sve_bytes = 0);

// The strides of a matrix, as far as they are known when its code is emitted. The less is known, the more
// code is emitted.
enum class DotStrides : std::uint8_t {
  UnitInner, // the column stride is 1: rows are contiguous
  UnitOuter, // the row stride is 1: columns are contiguous (a transposed matrix)
  Any,       // found at run time; every combination works, including zero and negative strides
};

// The element types of a product and the largest extents that the routine is called with. The extents choose
// the register tile and bound the scratch. The routine handles any size in chunks, so that a very large
// number may stand for an extent that is not known.
struct DotShape {
  DType a = DType::F32;
  DType b = DType::F32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DotStrides a_strides = DotStrides::Any;
  DotStrides b_strides = DotStrides::Any;
  bool rounds = false; // the sums may be stored rounded to bf16 (DotOperands::rounded)
  // The order of sums does not depend on m: they begin with C, and products are added in the order of K.
  bool fixed_order = false;
  bool prefetches_next_b = false; // skinny products prefetch what DotOperands::to_next_b says
};

// The element type of C: f64 if either operand is f64, f32 for other floats, i32 for i8 and u8. Throws
// InternalError for pairs that dot_supported rejects.
DType dot_accumulator(DType a, DType b);
bool dot_supported(DType a, DType b);

// A matrix in memory. Strides are i64 and count elements.
struct DotMatrix {
  llvm::Value* pointer = nullptr;
  llvm::Value* row_stride = nullptr;
  llvm::Value* column_stride = nullptr;
};

// The operands of one call. m, n and k are the valid extents: i64, at most those of the shape, and zero or
// less for none. No element beyond them is read or written. `accumulate` is an i1: if it is false, the
// product overwrites C, which then may be uninitialised (with k == 0 C becomes zero). C is row-major with
// unit inner stride, and overlaps neither A, B nor the scratch. If `rounded` is not null when the code runs,
// the sums go there as bf16, rounded to nearest even, and the content of C is unspecified; K must then not be
// zero, dot_stores_rounded must be true, and `rounded` must not overlap anything. `to_next_b`, an i64, is the
// distance in bytes from this B to a matrix with the same strides that is multiplied next, or 0. The memory
// there need not exist.
struct DotOperands {
  DotMatrix a;
  DotMatrix b;
  llvm::Value* c = nullptr;
  llvm::Value* c_row_stride = nullptr;
  llvm::Value* m = nullptr;
  llvm::Value* n = nullptr;
  llvm::Value* k = nullptr;
  llvm::Value* accumulate = nullptr;
  llvm::Value* scratch = nullptr;
  llvm::Value* rounded = nullptr; // only if the shape rounds
  llvm::Value* rounded_row_stride = nullptr;
  llvm::Value* to_next_b = nullptr; // only if the shape prefetches it
};

} // namespace kiln::cpu
