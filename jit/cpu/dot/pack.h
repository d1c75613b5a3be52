// Declares the routine that copies a block of a matrix into the order and type that the microkernel reads.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>
#include <kiln/jit/cpu/tuning.h>

namespace kiln::cpu::dot {

enum class PackOrder : std::uint8_t {
  Elements, // packed[r][c] = source[r][c]
  // packed[r][c] = {source[g r][c], source[g r + 1][c], ...} in 32 bits; missing last rows are zero
  RowGroups,
};

struct PackSpec {
  DType from = DType::F32;
  PanelKind panel = PanelKind::F32;
  PackOrder order = PackOrder::Elements;
  DotStrides strides = DotStrides::Any;
  int lanes = 0;
  DotTarget target;
  bool transposes = true; // contiguous columns are transposed in vectors
  // Vectors of a contiguous row that are copied together, at most as many as most rows have.
  int vectors_together = tuning::packed_vectors;
  bool exactly = false; // most rows have exactly that many
};

// void(ptr packed, i64 packed_row_stride, ptr source, i64 row_stride, i64 column_stride, i64 rows,
//      i64 columns, i64 padded_columns)
//
// `rows` and `columns` count elements of the source. Packed columns from `columns` to `padded_columns`, a
// multiple of 2 or of the lanes, whichever the caller allocated, become zero.
llvm::Function* pack_routine(Builder& b, const PackSpec& spec);

} // namespace kiln::cpu::dot
