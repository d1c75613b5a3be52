// Computes the positions of arguments in the block of words, and the grid that the extents of views define.
#include <kiln/dsl/ir/arguments.h>

namespace kiln::ir {

ArgumentLayout ArgumentLayout::of(const Kernel& kernel) {
  ArgumentLayout layout;
  for (const auto& arg : kernel.body.args) {
    layout.first_word.push_back(layout.words);
    layout.words += words_of(arg->type);
  }
  return layout;
}

std::optional<int> ArgumentLayout::word_of(const Value* v) const {
  while (v->def && v->def->is(Opcode::Cast))
    v = v->def->operand(0);
  if (!v->def) {
    if (v->region->parent || v->type.is_view() || !is_integer(v->type.dtype)) return std::nullopt;
    return first_word[static_cast<std::size_t>(v->index)];
  }
  if (!v->def->is(Opcode::ViewExtent) || v->def->operand(0)->def) return std::nullopt;
  return extent_word(v->def->operand(0)->index, static_cast<int>(v->def->integer("axis")));
}

std::vector<std::int64_t> grid_of(const Kernel& kernel, const std::uint64_t* arguments) {
  ArgumentLayout layout = ArgumentLayout::of(kernel);
  std::vector<std::int64_t> programs;
  for (const GridAxis& axis : kernel.grid) {
    auto extent = static_cast<std::int64_t>(arguments[layout.extent_word(axis.param, axis.axis)]);
    std::int64_t tile = axis.tile.value();
    programs.push_back(extent / tile + (extent % tile != 0));
  }
  return programs;
}

} // namespace kiln::ir
