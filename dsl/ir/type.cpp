// Prints the types of tile IR.
#include <kiln/dsl/ir/type.h>

namespace kiln::ir {

std::string Type::to_string() const {
  std::string element = (readonly ? "const " : "") + std::string(name(dtype));
  if (is_view()) {
    static constexpr const char* layouts[] = {"", ", unit", ", aligned"};
    return "view<" + element + ", " + std::to_string(view_rank) + layouts[static_cast<int>(layout)] + ">";
  }
  if (pointer) element = "ptr<" + element + ">";
  if (is_scalar()) return element;
  std::string text = "tile<";
  for (const Dim& d : shape)
    text += d.to_string() + " x ";
  return text + element + ">";
}

} // namespace kiln::ir
