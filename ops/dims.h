// Declares the tile dimensions of the kernels of ops.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dim.h>

KILN_API_BEGIN
namespace kiln::ops {
KILN_DIM(BM); // rows
KILN_DIM(BN); // columns
KILN_DIM(BK); // the inner dimension of a product

// Of attention: the queries and the keys of a block, the width of a head of q and k, and that of v.
KILN_DIM(QUERIES);
KILN_DIM(KEYS);
KILN_DIM(WIDTH);
KILN_DIM(VALUES);
} // namespace kiln::ops
KILN_API_END
