// Defines the options of matrix products; matmul.h says what they mean.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/shape.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::ops {

struct MatmulOptions {
  Activation activation = Activation::none;
  double alpha = 1, beta = 0;
  Input bias = {}, times = {}, residual = {};
  // How factors of f32 are multiplied; it has no effect on other dtypes. CPUs always multiply as with ieee.
  Precision precision = Precision::ieee;
  // Whether the bits of a row of c are the same for any number of rows, place of the row, batch and number of
  // threads.
  bool batch_invariant = false;
  // With batch_invariant: how many columns the matrix has of which b is a part, such as the shard of a rank. A
  // column of c then has the bits that it has in the product with the whole matrix. 0: b is the whole matrix.
  std::int64_t whole_columns = 0;
};

} // namespace kiln::ops
KILN_API_END
