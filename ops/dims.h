// Declares the tile dimensions of the kernels of ops.
#pragma once

#include <kiln/dsl/dim.h>

namespace kiln::ops {
KILN_DIM(BM); // rows
KILN_DIM(BN); // columns
KILN_DIM(BK); // the inner dimension of a product
} // namespace kiln::ops
