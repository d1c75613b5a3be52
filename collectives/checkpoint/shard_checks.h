// Checks that a rank's tensor can be the shard that its description says.
#pragma once

#include <kiln/collectives/tensor_shard.h>
#include <kiln/ops/array.h>

#include <string>

namespace kiln::collectives {

// "[128, 1024]"
std::string shape_text(const std::vector<std::int64_t>& extents);
std::vector<std::int64_t> extents_of(const ops::Array& array);

// Throws UserError, which begins with `where`, unless the ranges are within the whole tensor and the rank's.
void check_shard(const std::string& where, const ops::Array& own, const TensorShard& shard);

// A contiguous tensor as a matrix of `rows` rows: the first axis, and the product of the others.
struct MatrixExtents {
  std::int64_t rows = 1, columns = 1;
};
MatrixExtents as_matrix(const std::vector<std::int64_t>& extents);

} // namespace kiln::collectives
