// Returns the names of activation functions.
#include <kiln/ops/activation.h>

namespace kiln::ops {

const char* name(Activation activation) {
  constexpr const char* names[activation_count] = {"none", "relu", "gelu", "silu"};
  return names[static_cast<int>(activation)];
}

} // namespace kiln::ops
