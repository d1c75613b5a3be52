// Derives, for one dimension at a time, how each value depends on the beginning of the program's tile.
#include <kiln/jit/cpu/facts/program_tiles.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace kiln::cpu {

using ir::Dim;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

// How the elements of a value depend on the dimension.
enum class Dependence {
  None,      // they do not depend on it
  Index,     // the index along the dimension, plus a value that does not depend on it
  TileBegin, // the beginning of the program's tile, plus a value that does not depend on it
  Position,  // only on the sum of both: on the position in the view, however programs divide it
};

bool is_symbol(const Dim& d, const char* name) { return d == Dim::symbol(name); }

bool has_axis(const ir::Type& type, const char* name) {
  return std::any_of(type.shape.begin(), type.shape.end(), [&](const Dim& d) { return is_symbol(d, name); });
}

// Decides about one dimension. Where a function finds that the size of the dimension affects the results, it
// returns nullopt or false.
class DimensionAnalysis {
public:
  DimensionAnalysis(const ir::Kernel& kernel, const char* name) : kernel_(kernel), name_(name) {}

  bool is_free() {
    for (const auto& arg : kernel_.body.args)
      dependence_[arg.get()] = Dependence::None;
    return follow(kernel_.body) && stored_ && begin_;
  }

private:
  bool follow(const ir::Region& region) {
    return std::all_of(region.ops.begin(), region.ops.end(), [&](const auto& op) { return follow(*op); });
  }

  bool follow(const Op& op) {
    if (op.is(Opcode::Yield)) return true; // follow_loop looks at it
    if (!has_plain_types(op)) return false;
    if (op.is(Opcode::ProgramTile)) return defines_begin(op);
    if (op.is(Opcode::For)) return follow_loop(op);
    if (op.is(Opcode::ViewStore)) return stored_ = stores_positions(op);
    const auto along = op.is(Opcode::Reduce) ? reduction(op) : result(op);
    for (const auto& r : op.results)
      if (along) dependence_[r.get()] = *along;
    return along.has_value();
  }

  // The bounds must not depend on the dimension, and carried values may depend at most on positions. The
  // dependences of carried values are found by iterating until nothing changes.
  bool follow_loop(const Op& op) {
    const ir::Region& body = *op.region();
    for (int i = 0; i < 3; ++i)
      if (dependence_.at(op.operand(i)) != Dependence::None) return false;
    dependence_[body.args[0].get()] = Dependence::None;
    for (std::size_t i = 1; i < body.args.size(); ++i) {
      const Dependence initial = dependence_.at(op.operand(static_cast<int>(i) + 2));
      if (initial != Dependence::None && initial != Dependence::Position) return false;
      dependence_[body.args[i].get()] = initial;
    }
    for (bool changed = true; changed;) {
      if (!follow(body)) return false;
      changed = false;
      for (std::size_t i = 1; i < body.args.size(); ++i) {
        Dependence& carried = dependence_.at(body.args[i].get());
        const Dependence next = dependence_.at(body.terminator()->operand(static_cast<int>(i) - 1));
        if (next == carried || next == Dependence::None) continue;
        if (next != Dependence::Position) return false;
        carried = next, changed = true;
      }
    }
    for (int i = 0; i < op.num_results(); ++i)
      dependence_[op.result(i)] = dependence_.at(body.args[static_cast<std::size_t>(i) + 1].get());
    return true;
  }

  // Reductions must be along another axis.
  std::optional<Dependence> reduction(const Op& op) const {
    const ir::Shape& shape = op.operand(0)->type.shape;
    if (is_symbol(shape[static_cast<std::size_t>(op.integer("axis"))], name_)) return std::nullopt;
    for (const auto& inner : op.region()->ops)
      for (const Value* v : inner->operands)
        if (const auto outer = dependence_.find(v);
            outer != dependence_.end() && outer->second != Dependence::None)
          return std::nullopt;
    return elementwise(op);
  }

  bool contains_dimension(const Dim& d) const {
    std::vector<const char*> names;
    d.collect_symbols(names);
    return std::any_of(names.begin(), names.end(),
                       [&](const char* n) { return std::string_view(n) == name_; });
  }

  // Whether each extent of a tile is the dimension itself, at most once, or is not computed from it.
  bool has_plain_types(const Op& op) const {
    return std::all_of(op.results.begin(), op.results.end(), [&](const auto& r) {
      const ir::Shape& shape = r->type.shape;
      auto own = [&](const Dim& d) { return is_symbol(d, name_); };
      return std::count_if(shape.begin(), shape.end(), own) <= 1 &&
             std::all_of(shape.begin(), shape.end(),
                         [&](const Dim& d) { return own(d) || !contains_dimension(d); });
    });
  }

  bool defines_begin(const Op& op) {
    const auto& dims = std::get<ir::Shape>(*op.find("dims"));
    const auto& axes = op.integers("axes"); // empty: the leading ones
    for (int i = 0; i < op.num_results(); ++i) {
      const bool own = is_symbol(dims[static_cast<std::size_t>(i)], name_);
      if (own && begin_) return false;
      if (own)
        begin_ = op.result(i), grid_view_ = op.operand(0),
        grid_axis_ = axes.empty() ? i : static_cast<int>(axes[static_cast<std::size_t>(i)]);
      dependence_[op.result(i)] = own ? Dependence::TileBegin : Dependence::None;
    }
    return true;
  }

  std::optional<Dependence> result(const Op& op) const {
    switch (op.code) {
    case Opcode::Constant:
    case Opcode::ViewExtent:
    case Opcode::ViewStride: return Dependence::None;
    case Opcode::DimSize:
      return contains_dimension(std::get<Dim>(*op.find("dim"))) ? std::nullopt
                                                                : std::optional(Dependence::None);
    case Opcode::Arange: return arange(op);
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Squeeze:
    case Opcode::Permute: return dependence_.at(op.operand(0));
    case Opcode::ViewLoad:
    case Opcode::ViewMask: return loads_positions(op);
    case Opcode::Cast: return cast(op);
    case Opcode::Add: return sum(op);
    case Opcode::Sub: return difference(op);
    case Opcode::Expects: return elementwise(op);
    default: break;
    }
    return ir::is_elementwise(op.code) ? elementwise(op) : std::nullopt;
  }

  // Indices of 32 bits must not wrap in a larger tile.
  std::optional<Dependence> arange(const Op& op) const {
    constexpr std::int64_t largest_tile = std::int64_t{1} << 28;
    if (!is_symbol(op.result()->type.shape[0], name_)) return Dependence::None;
    const bool wraps = size_of(op.result()->type.dtype) < 8 &&
                       op.integer("start") > std::numeric_limits<std::int32_t>::max() - largest_tile;
    return wraps ? std::nullopt : std::optional(Dependence::Index);
  }

  // Indices keep their values in 64 bits.
  std::optional<Dependence> cast(const Op& op) const {
    const Dependence x = dependence_.at(op.operand(0));
    const DType from = op.operand(0)->type.dtype, to = op.result()->type.dtype;
    const bool whole = is_integer(from) && (to == DType::I64 || to == DType::U64) && size_of(from) >= 4;
    if (x == Dependence::Index || x == Dependence::TileBegin) return whole ? std::optional(x) : std::nullopt;
    return x;
  }

  std::optional<Dependence> difference(const Op& op) const {
    const Dependence y = dependence_.at(op.operand(1));
    if (y == Dependence::TileBegin || y == Dependence::Index)
      return std::nullopt; // it would decrease along the axis
    return sum(op);
  }

  std::optional<Dependence> sum(const Op& op) const {
    const Dependence x = dependence_.at(op.operand(0)), y = dependence_.at(op.operand(1));
    const bool number = x == Dependence::Index || y == Dependence::Index;
    const bool begin = x == Dependence::TileBegin || y == Dependence::TileBegin;
    if (number && begin) return Dependence::Position;
    const bool other = x == Dependence::None || y == Dependence::None;
    const bool exact =
        size_of(op.result()->type.dtype) == 8; // narrower numbers wrap, and sooner in longer tiles
    if (number) return other && exact ? std::optional(Dependence::Index) : std::nullopt;
    if (begin) return other ? std::optional(Dependence::TileBegin) : std::nullopt;
    return elementwise(op);
  }

  // A value that is computed element by element from positions depends on positions only.
  std::optional<Dependence> elementwise(const Op& op) const {
    Dependence along = Dependence::None;
    for (const Value* v : op.operands) {
      const Dependence x = dependence_.at(v);
      if (x == Dependence::Index || x == Dependence::TileBegin) return std::nullopt;
      if (x == Dependence::Position) along = x;
    }
    return along;
  }

  bool begins_at_program_tile(const Op& op, const ir::Type& tile) const {
    const auto offsets = op.view_offsets();
    const auto& axes = op.integers("axes");
    for (std::size_t a = 0; a < offsets.size(); ++a) {
      bool own = false;
      for (std::size_t t = 0; t < axes.size(); ++t)
        own |= axes[t] == static_cast<std::int64_t>(a) && is_symbol(tile.shape[t], name_);
      if (dependence_.at(offsets[a]) != (own ? Dependence::TileBegin : Dependence::None)) return false;
    }
    return true;
  }

  bool depends_on_position_only(const Value* v) const {
    return !v || dependence_.at(v) == Dependence::None || dependence_.at(v) == Dependence::Position;
  }

  std::optional<Dependence> loads_positions(const Op& op) const {
    const ir::Type& tile = op.result()->type;
    if (!begins_at_program_tile(op, tile) || !depends_on_position_only(op.mask()) ||
        !depends_on_position_only(op.other()))
      return std::nullopt;
    const bool places = has_axis(tile, name_) ||
                        (op.mask() && dependence_.at(op.mask()) == Dependence::Position) ||
                        (op.other() && dependence_.at(op.other()) == Dependence::Position);
    return places ? Dependence::Position : Dependence::None;
  }

  // Rule 4. Stores to another place would cover more or less of it with tiles of another size.
  bool stores_positions(const Op& op) const {
    const Value* value = op.stored_value();
    if (op.operand(0) != grid_view_ || !begins_at_program_tile(op, value->type)) return false;
    const auto& axes = op.integers("axes");
    const auto own = std::find_if(value->type.shape.begin(), value->type.shape.end(),
                                  [&](const Dim& d) { return is_symbol(d, name_); });
    if (own == value->type.shape.end()) return false;
    const std::int64_t axis = axes[static_cast<std::size_t>(own - value->type.shape.begin())];
    return axis == grid_axis_ && op.view_offsets()[static_cast<std::size_t>(axis)] == begin_ &&
           depends_on_position_only(value) && depends_on_position_only(op.mask());
  }

  const ir::Kernel& kernel_;
  const char* name_;
  bool stored_ = false;
  const Value *begin_ = nullptr, *grid_view_ = nullptr; // program_tile's offset, and its view
  int grid_axis_ = -1;                                  // the axis of that view
  std::unordered_map<const Value*, Dependence> dependence_;
};

// Notes along which axes of views the dimensions are, and which kinds of operations the kernel has.
void note_dimensions(const Op& op, ProgramTiles& tiles) {
  tiles.loops |= op.is(Opcode::For);
  tiles.reduces |= op.is(Opcode::Reduce);
  if (!op.is(Opcode::ViewLoad) && !op.is(Opcode::ViewStore)) return;
  const auto& axes = op.integers("axes");
  const ir::Type& tile = op.is(Opcode::ViewStore) ? op.stored_value()->type : op.result()->type;
  const int last = op.operand(0)->type.view_rank - 1;
  for (TileDimension& dimension : tiles.dimensions) {
    for (std::size_t t = 0; t < axes.size(); ++t) {
      if (!is_symbol(tile.shape[t], dimension.name)) continue;
      dimension.along_rows |= axes[t] == last;
      dimension.columns |= axes[t] == last && last > 0;
      dimension.rows |= axes[t] != last;
    }
  }
}

} // namespace

ProgramTiles program_tiles(const ir::Kernel& recorded) {
  ProgramTiles tiles;
  for (const auto& op : recorded.body.ops)
    if (op->is(Opcode::ProgramTile))
      for (const Dim& d : std::get<ir::Shape>(*op->find("dims"))) {
        std::vector<const char*> names;
        d.collect_symbols(names);
        if (names.size() != 1 || !is_symbol(d, names[0])) return {};
        tiles.dimensions.push_back({names[0]});
      }
  ir::walk(recorded.body, [&](const Op& op) { note_dimensions(op, tiles); });
  if (!recorded.config_specific)
    for (TileDimension& dimension : tiles.dimensions)
      dimension.free = DimensionAnalysis(recorded, dimension.name).is_free();
  return tiles;
}

} // namespace kiln::cpu
