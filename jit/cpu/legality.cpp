// Checks each operation of a kernel against the table of lowered dtypes.
#include <kiln/jit/cpu/legality.h>

#include <kiln/jit/emit/lowered_dtypes.h>

namespace kiln::cpu {

void check_legal(const ir::Kernel& kernel) {
  ir::walk(kernel.body, [](const ir::Op& op) { emit::check_dtype(op, "the CPU"); });
}

} // namespace kiln::cpu
