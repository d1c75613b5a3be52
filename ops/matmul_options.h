// Defines the options of matrix products; matmul.h says what they mean.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/shape.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>

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
};

} // namespace kiln::ops
KILN_API_END
