// Emits block matrix products into a function being built: C[m,n] (+)= A[m,k] * B[k,n].
//
// This is the CPU's `dot`. It knows nothing of tile IR: the caller hands over LLVM values (pointers, strides,
// valid extents) and gets a call to a routine that lives in the same module. The routine is the measured
// recipe for a library-speed product on one core:
//
//   for each chunk of K that fits the scratch
//     for each sliver of NR columns of B              packed into scratch as [k][NR], or in place if small
//       for each MR rows of A                         read in place by broadcast if rows are contiguous; the
//                                                     first may pack the sliver (AVX-512 of AMD's)
//         microkernel: MR x NR accumulators stay in registers over the whole chunk
//
// With 16 registers the tile is narrow, 6 x 16 for f32, and a sliver of B fits the first cache. Then a chunk
// of K of all slivers is packed first, and blocks of A's rows stay in the second cache while the slivers
// pass.
//
// On AVX-512 the register tile is 6 x 64 for f32 (24 accumulators, 4 vectors of B, 1 broadcast). Elements
// that are not of the accumulator's type are converted while packing: 16- and 8-bit floats to f32; i8 and u8
// to pairs of i16, which the multiply-add-pairs instruction sums exactly into i32. CPUs with dot products of
// bf16 pairs or of four bytes multiply those as they are.
//
// AMX's tile registers multiply bf16 at 16 times f32's rate, bytes at 32, and loading them is what counts: of
// 1024 columns of B a chunk of K is packed for the second cache, and passes 32 rows of A that stay in the
// first. Where all of K is one chunk, the sums can be rounded to bf16 and stored as they leave the registers;
// of several chunks, the last one's can.
//
// Usage, with `builder` inside the caller's function:
//
//   DotShape shape{.a = DType::F32, .b = DType::F32, .m = 256, .n = 256, .k = 64};
//   scratch = <at least dot_scratch_bytes(shape, target) bytes, 64-byte aligned, one per thread>
//   DotContext context{builder, shape, target};
//   emit_dot_accumulate(context, {.a = {a, lda, one}, .b = {b, ldb, one}, .c = c, .c_row_stride = ldc,
//                                 .m = m, .n = n, .k = k, .accumulate = builder.getTrue(),
//                                 .scratch = scratch});
//
// The routines are internal functions named "kiln.dot...", made once per module and found again by name, so a
// second product of the same types costs one call instruction. They carry the caller's target attributes. The
// IR is in its final form: no inlining, unrolling or vectorising is wanted; the cheap scalar passes are
// enough.
#pragma once

#include <cstdint>
#include <kiln/dsl/dtype.h>
#include <llvm/IR/IRBuilder.h>

namespace llvm {
class TargetMachine;
}

namespace kiln::cpu {

// Heuristics: so few rows of A take longer to read B than to multiply; the fewest multiply it best in long
// runs, as it comes from memory (dot/few_rows.h).
inline constexpr std::int64_t few_rows = 32, fewest_rows = 4;

enum class DotIsa : std::uint8_t { Generic, Avx2, Avx512, Neon, Sve };

// What the code may use. `bf16_dot` is the dot product of pairs of bf16, at twice the speed of f32; it takes
// denormals as zero (dsl/SEMANTICS.md allows that). `vnni` is the dot product of four bytes, on AArch64 of
// one signedness unless `i8mm`. AMX does both on tiles.
struct DotTarget {
  DotIsa isa = DotIsa::Generic;
  bool x86 = false;
  bool f16c = false;
  bool bf16_dot = false;
  bool vnni = false;
  bool i8mm = false;
  bool amx_bf16 = false, amx_int8 = false;
  bool far_second_cache = false; // its lines come too late unless they are asked for
  // The hardware asks early enough for rows that lie pages apart: asking too makes a product of one row
  // take a third longer, one of 18 a seventh (Zen 3).
  bool fetches_rows_ahead = false;
  int sve_bytes = 0; // of a register of Sve, 32 or 64
  std::int64_t second_cache_bytes = 1 << 20;

  bool has_masks() const { return isa == DotIsa::Avx2 || isa == DotIsa::Avx512 || isa == DotIsa::Sve; }
  int vector_bytes() const {
    return isa == DotIsa::Sve ? sve_bytes : isa == DotIsa::Avx512 ? 64 : isa == DotIsa::Avx2 ? 32 : 16;
  }
};
// `sve_bytes` is how long AArch64's SVE registers are if code is to use those, or 0.
DotTarget dot_target(const llvm::TargetMachine& machine, int sve_bytes = 0);

// What is known of a matrix's strides when the code is emitted. Less known means more code.
enum class DotStrides : std::uint8_t {
  UnitInner, // the column stride is 1: rows are contiguous
  UnitOuter, // the row stride is 1: columns are contiguous (a transposed matrix)
  Any,       // found at run time; every combination works, zero and negative strides too
};

// Element types and the largest extents the routine will be called with. The extents choose the register tile
// and bound the scratch; any size is served, in chunks, so an unknown extent may be given as a very large
// one.
struct DotShape {
  DType a = DType::F32;
  DType b = DType::F32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DotStrides a_strides = DotStrides::Any;
  DotStrides b_strides = DotStrides::Any;
  bool rounds = false; // the sums may be stored rounded to bf16 (DotOperands::rounded)
};

// The element type of C: f64 if either is f64, f32 for other floats, i32 for i8 and u8.
// Throws InternalError for pairs that `dot_supported` refuses.
DType dot_accumulator(DType a, DType b);
bool dot_supported(DType a, DType b);

// Whether the routine of a shape that `rounds` can store the sums rounded.
bool dot_stores_rounded(const DotShape& shape, const DotTarget& target);

// Bytes of scratch memory that the routine writes; it needs no initialisation and holds nothing between
// calls.
std::int64_t dot_scratch_bytes(const DotShape& shape, const DotTarget& target);

// Strides are i64, in elements.
struct DotMatrix {
  llvm::Value* pointer = nullptr;
  llvm::Value* row_stride = nullptr;
  llvm::Value* column_stride = nullptr;
};

// m, n, k are the valid extents (i64, at most those of the shape; zero or less is none): no element beyond
// them is read or written. `accumulate` is an i1: false overwrites C, which then may be uninitialised (k == 0
// writes zeros). C is row-major with unit inner stride and overlaps neither A, B nor the scratch. Where
// `rounded` is not null when the code runs, it takes the sums as bf16, rounded to nearest even, and C holds
// nothing of use; K is then not zero, `dot_stores_rounded` true, and `rounded` overlaps nothing.
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
  llvm::Value* rounded = nullptr; // of a shape that `rounds`
  llvm::Value* rounded_row_stride = nullptr;
};

struct DotContext {
  llvm::IRBuilder<>& builder;
  DotShape shape;
  DotTarget target;
};

// Emits the product at the builder's insertion point.
void emit_dot_accumulate(DotContext& context, const DotOperands& operands);

} // namespace kiln::cpu
