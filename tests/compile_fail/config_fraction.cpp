// Sets a size to a fraction.
// expect: a config takes integers as sizes and options: write {BM = 128, num_warps = 4}
#include <kiln/kiln.h>

using namespace kiln;
KILN_DIM(BN);

void call(Stream& stream, const Kernel<>& k) { k.launch(stream, {BN = 3.7}); }
