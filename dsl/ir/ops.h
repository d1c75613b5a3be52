// Defines the table of tile IR operations, with a description of each. The builder, printer, parser, verifier
// and interpreter use it, so that adding an operation means adding one line here and its lowerings.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln::ir {

// The classes of operations, by how the types of operands and results depend on each other:
//
//   Unary, Binary, Ternary  elementwise; operands and result have the same type
//   Predicate, Compare      elementwise, with one and with two operands; the result is bool
//   others                  see the operations of the class
//
// The verifier has one rule for each class, and rules for operations that need their own.
enum class OpClass : std::uint8_t {
  Unary,
  Predicate,
  Binary,
  Compare,
  Ternary,
  Select,
  Convert,
  Source, // has no tiles as operands: constants, program indices, properties of views
  Shape,  // moves elements without computing
  Lookup, // an element of a result depends on the values of a whole tile
  Memory,
  Atomic,
  Dot,
  Collective,
  Control,
  Debug,
};

// The effects of an operation besides computing its results. Read and Write refer to memory. Operations with
// Debug print or assert; they stay in order and are never removed.
enum class Effect : std::uint8_t { Pure, Read, Write, ReadWrite, Debug };

// X(Code, "name", Class, operands, results, regions, Effect, "what it does")
//
// The numbers of operands and results are exact; -1 stands for any number. The texts list operands in order.
// `[mask]` and `[other]` are optional trailing operands; the integer attributes `has_mask` and `has_other` (1
// or absent) say whether they are present. Every offset, extent, stride and index is i64.
#define KILN_IR_OPS(X)                                                                                       \
  /* Sources */                                                                                              \
  X(Constant, "constant", Source, 0, 1, 0, Pure,                                                             \
    "a scalar; attribute value: i64 for integers and bool, f64 bits for floats")                             \
  X(DimSize, "dim_size", Source, 0, 1, 0, Pure, "the number behind a dimension, as i64; attribute dim")      \
  X(ProgramId, "program_id", Source, 0, 1, 0, Pure, "index of this program along grid axis `axis`, i64")     \
  X(NumPrograms, "num_programs", Source, 0, 1, 0, Pure, "number of programs along grid axis `axis`, i64")    \
  X(ProgramTile, "program_tile", Source, 1, -1, 0, Pure,                                                     \
    "offsets (i64 each, in elements) of this program's tile of a view; attributes dims, the extents of the " \
    "tile, and axes, the view's axes that they belong to (by default the leading ones); defines the grid")   \
  X(ViewExtent, "view_extent", Source, 1, 1, 0, Pure, "extent of a view along `axis`, i64")                  \
  X(ViewStride, "view_stride", Source, 1, 1, 0, Pure, "stride of a view along `axis`, in elements, i64")     \
  X(ViewData, "view_data", Source, 1, 1, 0, Pure, "pointer to a view's first element")                       \
  X(ViewSlice, "view_slice", Source, 3, 1, 0, Pure,                                                          \
    "view, begin, end (i64) -> the view of the elements begin to end - 1 along `axis`, which count from 0 "  \
    "there; begin and end are clamped to the view's extent")                                                 \
  X(ViewOf, "view_of", Source, -1, 1, 0, Pure,                                                               \
    "pointer, one i64 extent per axis, one i64 stride per axis (in elements) -> view of that memory")        \
  X(Arange, "arange", Source, 0, 1, 0, Pure,                                                                 \
    "tile of rank 1: start, start+1, ...; attribute start; i32 or i64")                                      \
  /* Elementwise */                                                                                          \
  X(Neg, "neg", Unary, 1, 1, 0, Pure, "-x")                                                                  \
  X(Not, "not", Unary, 1, 1, 0, Pure, "bitwise complement; logical for bool")                                \
  X(Abs, "abs", Unary, 1, 1, 0, Pure, "|x|")                                                                 \
  X(Exp, "exp", Unary, 1, 1, 0, Pure, "e**x")                                                                \
  X(Exp2, "exp2", Unary, 1, 1, 0, Pure, "2**x")                                                              \
  X(Expm1, "expm1", Unary, 1, 1, 0, Pure, "e**x - 1")                                                        \
  X(Log, "log", Unary, 1, 1, 0, Pure, "natural logarithm")                                                   \
  X(Log2, "log2", Unary, 1, 1, 0, Pure, "logarithm to base 2")                                               \
  X(Log1p, "log1p", Unary, 1, 1, 0, Pure, "log(1 + x)")                                                      \
  X(Sin, "sin", Unary, 1, 1, 0, Pure, "sine")                                                                \
  X(Cos, "cos", Unary, 1, 1, 0, Pure, "cosine")                                                              \
  X(Tan, "tan", Unary, 1, 1, 0, Pure, "tangent")                                                             \
  X(Tanh, "tanh", Unary, 1, 1, 0, Pure, "hyperbolic tangent")                                                \
  X(Erf, "erf", Unary, 1, 1, 0, Pure, "error function")                                                      \
  X(Sigmoid, "sigmoid", Unary, 1, 1, 0, Pure, "1 / (1 + exp(-x))")                                           \
  X(Gelu, "gelu", Unary, 1, 1, 0, Pure, "x times the cumulative normal distribution at x")                   \
  X(Sqrt, "sqrt", Unary, 1, 1, 0, Pure, "square root, correctly rounded")                                    \
  X(Rsqrt, "rsqrt", Unary, 1, 1, 0, Pure, "1 / sqrt(x)")                                                     \
  X(Floor, "floor", Unary, 1, 1, 0, Pure, "round towards minus infinity")                                    \
  X(Ceil, "ceil", Unary, 1, 1, 0, Pure, "round towards plus infinity")                                       \
  X(Trunc, "trunc", Unary, 1, 1, 0, Pure, "round towards zero")                                              \
  X(Round, "round", Unary, 1, 1, 0, Pure, "round to nearest, ties to even")                                  \
  X(PopCount, "popcount", Unary, 1, 1, 0, Pure, "number of set bits")                                        \
  X(IsNan, "isnan", Predicate, 1, 1, 0, Pure, "whether x is not a number")                                   \
  X(IsInf, "isinf", Predicate, 1, 1, 0, Pure, "whether x is an infinity")                                    \
  X(Add, "add", Binary, 2, 1, 0, Pure, "a + b")                                                              \
  X(Sub, "sub", Binary, 2, 1, 0, Pure, "a - b")                                                              \
  X(Mul, "mul", Binary, 2, 1, 0, Pure, "a * b")                                                              \
  X(MulHi, "mul_hi", Binary, 2, 1, 0, Pure, "upper half of the double-width product of integers")            \
  X(Div, "div", Binary, 2, 1, 0, Pure, "a / b; integers truncate towards zero")                              \
  X(Rem, "rem", Binary, 2, 1, 0, Pure, "a - trunc(a / b) * b")                                               \
  X(Pow, "pow", Binary, 2, 1, 0, Pure, "a**b")                                                               \
  X(Atan2, "atan2", Binary, 2, 1, 0, Pure, "angle of the point (b, a)")                                      \
  X(Min, "min", Binary, 2, 1, 0, Pure, "smaller of both; if one is NaN, the other one")                      \
  X(Max, "max", Binary, 2, 1, 0, Pure, "larger of both; if one is NaN, the other one")                       \
  X(MinNan, "min_nan", Binary, 2, 1, 0, Pure, "smaller of both floats; NaN if either is NaN")                \
  X(MaxNan, "max_nan", Binary, 2, 1, 0, Pure, "larger of both floats; NaN if either is NaN")                 \
  X(And, "and", Binary, 2, 1, 0, Pure, "bitwise and; logical for bool")                                      \
  X(Or, "or", Binary, 2, 1, 0, Pure, "bitwise or; logical for bool")                                         \
  X(Xor, "xor", Binary, 2, 1, 0, Pure, "bitwise exclusive or")                                               \
  X(Shl, "shl", Binary, 2, 1, 0, Pure, "a << b; zero once b >= width")                                       \
  X(Shr, "shr", Binary, 2, 1, 0, Pure, "a >> b, arithmetic for signed; sign or zero once b >= width")        \
  X(Eq, "eq", Compare, 2, 1, 0, Pure, "a == b")                                                              \
  X(Ne, "ne", Compare, 2, 1, 0, Pure, "a != b; true if either is NaN")                                       \
  X(Lt, "lt", Compare, 2, 1, 0, Pure, "a < b")                                                               \
  X(Le, "le", Compare, 2, 1, 0, Pure, "a <= b")                                                              \
  X(Gt, "gt", Compare, 2, 1, 0, Pure, "a > b")                                                               \
  X(Ge, "ge", Compare, 2, 1, 0, Pure, "a >= b")                                                              \
  X(Fma, "fma", Ternary, 3, 1, 0, Pure, "a * b + c, rounded once")                                           \
  X(Select, "select", Select, 3, 1, 0, Pure,                                                                 \
    "condition ? a : b, per element; the condition is bool of the same shape")                               \
  X(Cast, "cast", Convert, 1, 1, 0, Pure,                                                                    \
    "converts to the result's dtype; float to integer saturates, NaN gives 0")                               \
  X(Bitcast, "bitcast", Convert, 1, 1, 0, Pure, "the same bits as a dtype of equal size")                    \
  X(PtrAdd, "ptr_add", Convert, 2, 1, 0, Pure, "pointer plus i64 offset in elements, elementwise")           \
  /* Shape */                                                                                                \
  X(Splat, "splat", Shape, 1, 1, 0, Pure, "a scalar repeated over the result's shape")                       \
  X(Broadcast, "broadcast", Shape, 1, 1, 0, Pure, "axes of extent 1 repeated; same rank")                    \
  X(ExpandDims, "expand_dims", Shape, 1, 1, 0, Pure, "inserts an axis of extent 1 at `axis`")                \
  X(Squeeze, "squeeze", Shape, 1, 1, 0, Pure, "removes the axis `axis`, whose extent is 1")                  \
  X(Extract, "extract", Shape, 1, 1, 0, Pure,                                                                \
    "the elements whose index along `axis` is `index`, without that axis")                                   \
  X(Permute, "permute", Shape, 1, 1, 0, Pure, "result axis i is operand axis `order`[i]")                    \
  X(Reshape, "reshape", Shape, 1, 1, 0, Pure, "the same elements in row-major order under another shape")    \
  /* Elements by value: gathers, sorts, histograms */                                                        \
  X(Gather, "gather", Lookup, 2, 1, 0, Pure,                                                                 \
    "tile x, tile of indices (i32 or i64, the extents of x except along `axis`) -> the elements of x with "  \
    "these indices along `axis`; zero where an index is negative or not below the extent")                   \
  X(Sort, "sort", Lookup, 1, 2, 0, Pure,                                                                     \
    "tile -> its first elements along `axis` in ascending order (descending = 1: in descending order), and " \
    "their indices (i32); as many as the results have along `axis`; equal elements keep their order, -0 is " \
    "below 0, and NaN above every number")                                                                   \
  X(Histogram, "histogram", Lookup, -1, 1, 0, Pure,                                                          \
    "tile of integers, [mask] -> i32 tile of rank 1: how many elements are 0, 1, ...; others are not "       \
    "counted")                                                                                               \
  /* Memory */                                                                                               \
  X(ViewLoad, "view_load", Memory, -1, 1, 0, Read,                                                           \
    "view, one i64 offset per view axis, [mask], [other] -> tile; attribute axes: the view axis of each "    \
    "tile axis (others have extent 1 and are dropped); elements outside the view or masked off read as "     \
    "other, by default zero; other is a scalar or of the tile's shape")                                      \
  X(ViewStore, "view_store", Memory, -1, 0, 0, Write,                                                        \
    "view, value, one i64 offset per view axis, [mask]; attribute axes; elements outside the view are not "  \
    "written")                                                                                               \
  X(ViewGather, "view_gather", Memory, -1, 1, 0, Read,                                                       \
    "view, one i64 index tile per view axis (all of the result's shape), [mask], [other]")                   \
  X(ViewScatter, "view_scatter", Memory, -1, 0, 0, Write,                                                    \
    "view, value, one i64 index tile per view axis (all of the value's shape), [mask]")                      \
  X(ViewPtrs, "view_ptrs", Memory, -1, 1, 0, Pure,                                                           \
    "view, one i64 offset per view axis -> tile of pointers; attribute axes")                                \
  X(ViewMask, "view_mask", Memory, -1, 1, 0, Pure,                                                           \
    "view, one i64 offset per view axis -> bool tile, true inside the view; attribute axes")                 \
  X(Load, "load", Memory, -1, 1, 0, Read,                                                                    \
    "pointer tile, [mask], [other] -> tile; attributes cache: a hint, ca or cg as in PTX; align: what the "  \
    "addresses are multiples of, in bytes, by default the size of an element")                               \
  X(Store, "store", Memory, -1, 0, 0, Write, "pointer tile, value, [mask]")                                  \
  X(AtomicRmw, "atomic_rmw", Atomic, -1, 1, 0, ReadWrite,                                                    \
    "pointer tile, value, [mask] -> old value (zero where the mask is false); attributes kind (add, "        \
    "min, max, and, or, xor, xchg), order (relaxed, acquire, release, acq_rel), scope (cta, gpu, sys)")      \
  X(AtomicCas, "atomic_cas", Atomic, -1, 1, 0, ReadWrite,                                                    \
    "pointer tile, expected, desired, [mask] -> old value; attributes order, scope")                         \
  /* Matrix product, reductions, scans */                                                                    \
  X(Dot, "dot", Dot, -1, 1, 0, Pure,                                                                         \
    "a [.., M, K], b [.., K, N], optional accumulator [.., M, N]; attributes precision (ieee, tf32) for "    \
    "f32, sum_order (any, fixed): whether the order of sums may depend on M")                                \
  X(Reduce, "reduce", Collective, -1, -1, 1, Pure,                                                           \
    "n tiles of one shape -> n tiles without axis `axis`; region (a1..an, b1..bn) yields the combined n "    \
    "scalars; the combine must be associative and commutative")                                              \
  X(Scan, "scan", Collective, -1, -1, 1, Pure,                                                               \
    "n tiles of one shape -> n tiles: inclusive prefix along `axis`; attribute reverse (0, 1); region as "   \
    "in reduce, associative")                                                                                \
  /* Control */                                                                                              \
  X(For, "for", Control, -1, -1, 1, Pure,                                                                    \
    "lower, upper, step (i64; runs nothing unless step > 0), initial values; region (index, carried "        \
    "values) yields the next values; attribute stages: a hint")                                              \
  X(While, "while", Control, -1, -1, 2, Pure,                                                                \
    "initial values; first region (values) yields one bool, second (values) yields the next values")         \
  X(If, "if", Control, 1, -1, 2, Pure, "scalar bool; the region that is taken yields the results")           \
  X(Yield, "yield", Control, -1, 0, 0, Pure, "ends a region with its values")                                \
  /* Checks and output */                                                                                    \
  X(Expects, "expects", Debug, -1, 0, 0, Debug,                                                              \
    "scalar bool, optionally the two compared values; checked on the host at launch; attribute message")     \
  X(DeviceAssert, "device_assert", Debug, -1, 0, 0, Debug,                                                   \
    "bool scalar or tile, [mask]; attribute message; active under KILN_DEBUG=1")                             \
  X(DevicePrint, "device_print", Debug, -1, 0, 0, Debug,                                                     \
    "any number of values; attribute message: printed before them")

enum class Opcode : std::uint8_t {
#define KILN_IR_CODE(Code, ...) Code,
  KILN_IR_OPS(KILN_IR_CODE)
#undef KILN_IR_CODE
};

struct OpInfo {
  Opcode code;
  std::string_view name;
  OpClass cls;
  int operands; // exact number, or -1
  int results;  // exact number, or -1
  int regions;
  Effect effect;
  std::string_view doc;
};

inline constexpr OpInfo op_table[] = {
#define KILN_IR_ROW(Code, Name, Class, Operands, Results, Regions, Eff, Doc)                                 \
  {Opcode::Code, Name, OpClass::Class, Operands, Results, Regions, Effect::Eff, Doc},
    KILN_IR_OPS(KILN_IR_ROW)
#undef KILN_IR_ROW
};
inline constexpr int op_count = sizeof(op_table) / sizeof(op_table[0]);

constexpr const OpInfo& info(Opcode code) { return op_table[static_cast<int>(code)]; }
constexpr std::string_view name(Opcode code) { return info(code).name; }
// Returns whether all operands and results have the same shape, and element i of a result depends only on the
// elements i of the operands.
constexpr bool is_elementwise(Opcode code) {
  OpClass c = info(code).cls;
  return c == OpClass::Unary || c == OpClass::Predicate || c == OpClass::Binary || c == OpClass::Compare ||
         c == OpClass::Ternary || c == OpClass::Select || c == OpClass::Convert;
}

} // namespace kiln::ir
