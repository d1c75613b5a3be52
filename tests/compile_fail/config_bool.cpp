// Sets an option to a bool.
// expect: a config takes integers as sizes and options: write {BM = 128, num_warps = 4}
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<>& k) { k.launch(stream, {num_warps = true}); }
