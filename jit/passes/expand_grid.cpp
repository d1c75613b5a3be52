// expand-grid: replaces program_tile by arithmetic on program_id, and defines the kernel's grid.
//
//  1. The kernel is bound.
//  2. The operand of program_tile is a view that is a parameter. The grid has an axis for each extent of the
//     tile, with cdiv(extent, tile) programs; the attribute axes says to which axes of the view they belong.
//  3. All program_tile of a kernel agree with each other, and with the recorded grid if there is one.
// Afterwards no program_tile is left: its result k is program_id(k) * tile k.
#include <kiln/jit/passes/passes.h>

namespace kiln::passes {

namespace {

using namespace ir;

std::string text_of(const Kernel& kernel, const std::vector<GridAxis>& grid) {
  std::string text = "tiles of";
  if (grid.empty()) return "no tiles";
  const Value* view = kernel.body.args[static_cast<std::size_t>(grid[0].param)].get();
  text += " " + (view->name ? std::string(view->name) : "parameter " + std::to_string(grid[0].param)) + " (";
  for (std::size_t i = 0; i < grid.size(); ++i)
    text += (i ? ", " : "") + grid[i].tile.to_string();
  return text + ")";
}

class Expander {
public:
  explicit Expander(Kernel& kernel) : kernel_(kernel) {}

  void expand(Region& region) {
    std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
    region.ops.clear();
    Builder builder(&region);
    for (auto& op : old) {
      if (op->is(Opcode::ProgramTile)) {
        define_grid(*op);
        replace(*op, builder);
        removed_.push_back(std::move(op)); // its results are keys of the map until all uses are replaced
        continue;
      }
      for (auto& inner : op->regions)
        expand(*inner);
      builder.insert(std::move(op));
    }
  }
  void finish() { replace_uses(kernel_.body, replacements_); }

private:
  void define_grid(const Op& op) {
    const Value* view = op.operand(0);
    internal_check(view->region == &kernel_.body, "program_tile of a view that is no parameter");
    std::vector<GridAxis> grid;
    const auto& axes = op.integers("axes"); // empty: the leading ones
    for (const Dim& tile : std::get<Shape>(*op.find("dims"))) {
      const std::size_t i = grid.size();
      grid.push_back(
          {view->index, static_cast<int>(axes.empty() ? static_cast<std::int64_t>(i) : axes[i]), tile});
    }
    if (kernel_.grid.empty()) kernel_.grid = grid;
    if (kernel_.grid != grid)
      throw UserError(op.loc, "kernel " + kernel_.name + " has one grid, but program_tile gives " +
                                  text_of(kernel_, grid) + " after " + text_of(kernel_, kernel_.grid) +
                                  "; call program_tile once and use its offsets for all views");
  }

  void replace(const Op& op, Builder& builder) {
    const Shape& dims = std::get<Shape>(*op.find("dims"));
    builder.set_location(op.loc);
    for (int axis = 0; axis < op.num_results(); ++axis) {
      Op* id = builder.create(Opcode::ProgramId, {}, {Type::scalar(DType::I64)});
      id->set("axis", std::int64_t{axis});
      Value* tile = builder.index(dims[static_cast<std::size_t>(axis)].value());
      replacements_[op.result(axis)] = builder.binary(Opcode::Mul, id->result(), tile);
    }
  }

  Kernel& kernel_;
  ValueMap replacements_;
  std::vector<std::unique_ptr<Op>> removed_;
};

} // namespace

void expand_grid(Kernel& kernel, const PassOptions&) {
  Expander expander(kernel);
  expander.expand(kernel.body);
  expander.finish();
}

} // namespace kiln::passes
