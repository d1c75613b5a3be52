// Declares the tile dimensions of the kernels of ops.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dim.h>

KILN_API_BEGIN
namespace kiln::ops {
KILN_DIM(BM); // rows
KILN_DIM(BN); // columns
KILN_DIM(BK); // the inner dimension of a product
} // namespace kiln::ops
KILN_API_END
