// Declares the tile dimensions of the kernels that measure a machine.
#pragma once

#include <kiln/dsl/dim.h>

namespace kiln::tune {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

} // namespace kiln::tune
