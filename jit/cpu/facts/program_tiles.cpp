// Follows, for one dimension at a time, how each value depends on where the program's tile begins.
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

// How elements of a value depend on the dimension in question.
enum class Along {
  Not,    // they do not
  Number, // each is its index along it, plus what does not depend on it
  Begin,  // where the program's tile begins, plus what does not depend on it
  Place,  // on the sum of both alone: on the place in the whole, however that is divided
};

bool is_symbol(const Dim& d, const char* name) { return d == Dim::symbol(name); }

bool has_axis(const ir::Type& type, const char* name) {
  return std::any_of(type.shape.begin(), type.shape.end(), [&](const Dim& d) { return is_symbol(d, name); });
}

// Decides about one dimension. Each rule gives nothing where it finds that the size can be told.
class Follower {
public:
  Follower(const ir::Kernel& kernel, const char* name) : kernel_(kernel), name_(name) {}

  bool is_free() {
    for (const auto& arg : kernel_.body.args)
      along_[arg.get()] = Along::Not;
    return follow(kernel_.body) && stored_ && begin_;
  }

private:
  bool follow(const ir::Region& region) {
    return std::all_of(region.ops.begin(), region.ops.end(), [&](const auto& op) { return follow(*op); });
  }

  bool follow(const Op& op) {
    if (op.is(Opcode::Yield)) return true; // its loop's concern
    if (!sound_types(op)) return false;
    if (op.is(Opcode::ProgramTile)) return defines_begin(op);
    if (op.is(Opcode::For)) return follow_loop(op);
    if (op.is(Opcode::ViewStore)) return stored_ = stores_places(op);
    const auto along = op.is(Opcode::Reduce) ? reduction(op) : result(op);
    for (const auto& r : op.results)
      if (along) along_[r.get()] = *along;
    return along.has_value();
  }

  // Bounds that do not depend on it, and carried values of which at most the place matters: round after round
  // until nothing more of them is found out.
  bool follow_loop(const Op& op) {
    const ir::Region& body = *op.region();
    for (int i = 0; i < 3; ++i)
      if (along_.at(op.operand(i)) != Along::Not) return false;
    along_[body.args[0].get()] = Along::Not;
    for (std::size_t i = 1; i < body.args.size(); ++i) {
      const Along initial = along_.at(op.operand(static_cast<int>(i) + 2));
      if (initial != Along::Not && initial != Along::Place) return false;
      along_[body.args[i].get()] = initial;
    }
    for (bool changed = true; changed;) {
      if (!follow(body)) return false;
      changed = false;
      for (std::size_t i = 1; i < body.args.size(); ++i) {
        Along& carried = along_.at(body.args[i].get());
        const Along next = along_.at(body.terminator()->operand(static_cast<int>(i) - 1));
        if (next == carried || next == Along::Not) continue;
        if (next != Along::Place) return false;
        carried = next, changed = true;
      }
    }
    for (int i = 0; i < op.num_results(); ++i)
      along_[op.result(i)] = along_.at(body.args[static_cast<std::size_t>(i) + 1].get());
    return true;
  }

  // Along another axis.
  std::optional<Along> reduction(const Op& op) const {
    const ir::Shape& shape = op.operand(0)->type.shape;
    if (is_symbol(shape[static_cast<std::size_t>(op.integer("axis"))], name_)) return std::nullopt;
    for (const auto& inner : op.region()->ops)
      for (const Value* v : inner->operands)
        if (const auto outer = along_.find(v); outer != along_.end() && outer->second != Along::Not)
          return std::nullopt;
    return everything(op);
  }

  bool is_made_of_it(const Dim& d) const {
    std::vector<const char*> names;
    d.collect_symbols(names);
    return std::any_of(names.begin(), names.end(),
                       [&](const char* n) { return std::string_view(n) == name_; });
  }

  // Each dimension of a tile is this one, or is not made of it; and one at most is.
  bool sound_types(const Op& op) const {
    return std::all_of(op.results.begin(), op.results.end(), [&](const auto& r) {
      const ir::Shape& shape = r->type.shape;
      auto own = [&](const Dim& d) { return is_symbol(d, name_); };
      return std::count_if(shape.begin(), shape.end(), own) <= 1 &&
             std::all_of(shape.begin(), shape.end(),
                         [&](const Dim& d) { return own(d) || !is_made_of_it(d); });
    });
  }

  bool defines_begin(const Op& op) {
    const auto& dims = std::get<ir::Shape>(*op.find("dims"));
    for (int i = 0; i < op.num_results(); ++i) {
      const bool own = is_symbol(dims[static_cast<std::size_t>(i)], name_);
      if (own && begin_) return false;
      if (own) begin_ = op.result(i), of_grid_ = op.operand(0), grid_axis_ = i;
      along_[op.result(i)] = own ? Along::Begin : Along::Not;
    }
    return true;
  }

  std::optional<Along> result(const Op& op) const {
    switch (op.code) {
    case Opcode::Constant:
    case Opcode::ViewExtent:
    case Opcode::ViewStride: return Along::Not;
    case Opcode::DimSize:
      return is_made_of_it(std::get<Dim>(*op.find("dim"))) ? std::nullopt : std::optional(Along::Not);
    case Opcode::Arange: return arange(op);
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Squeeze:
    case Opcode::Permute: return along_.at(op.operand(0));
    case Opcode::ViewLoad:
    case Opcode::ViewMask: return loads_places(op);
    case Opcode::Cast: return cast(op);
    case Opcode::Add: return sum(op);
    case Opcode::Sub: return difference(op);
    case Opcode::Expects: return everything(op);
    default: break;
    }
    return ir::is_elementwise(op.code) ? everything(op) : std::nullopt;
  }

  // Numbers of 32 bits may not wrap in a larger tile.
  std::optional<Along> arange(const Op& op) const {
    constexpr std::int64_t largest_tile = std::int64_t{1} << 28;
    if (!is_symbol(op.result()->type.shape[0], name_)) return Along::Not;
    const bool wraps = size_of(op.result()->type.dtype) < 8 &&
                       op.integer("start") > std::numeric_limits<std::int32_t>::max() - largest_tile;
    return wraps ? std::nullopt : std::optional(Along::Number);
  }

  // Numbers stay themselves in 64 bits.
  std::optional<Along> cast(const Op& op) const {
    const Along x = along_.at(op.operand(0));
    const DType from = op.operand(0)->type.dtype, to = op.result()->type.dtype;
    const bool whole = is_integer(from) && (to == DType::I64 || to == DType::U64) && size_of(from) >= 4;
    if (x == Along::Number || x == Along::Begin) return whole ? std::optional(x) : std::nullopt;
    return x;
  }

  std::optional<Along> difference(const Op& op) const {
    const Along y = along_.at(op.operand(1));
    if (y == Along::Begin || y == Along::Number) return std::nullopt; // would count down
    return sum(op);
  }

  std::optional<Along> sum(const Op& op) const {
    const Along x = along_.at(op.operand(0)), y = along_.at(op.operand(1));
    const bool number = x == Along::Number || y == Along::Number;
    const bool begin = x == Along::Begin || y == Along::Begin;
    if (number && begin) return Along::Place;
    const bool other = x == Along::Not || y == Along::Not;
    const bool exact = size_of(op.result()->type.dtype) == 8; // fewer bits wrap, sooner in longer tiles
    if (number) return other && exact ? std::optional(Along::Number) : std::nullopt;
    if (begin) return other ? std::optional(Along::Begin) : std::nullopt;
    return everything(op);
  }

  // What is computed element by element from places is about places.
  std::optional<Along> everything(const Op& op) const {
    Along along = Along::Not;
    for (const Value* v : op.operands) {
      const Along x = along_.at(v);
      if (x == Along::Number || x == Along::Begin) return std::nullopt;
      if (x == Along::Place) along = x;
    }
    return along;
  }

  bool begins_right(const Op& op, const ir::Type& tile) const {
    const auto offsets = op.view_offsets();
    const auto& axes = op.integers("axes");
    for (std::size_t a = 0; a < offsets.size(); ++a) {
      bool own = false;
      for (std::size_t t = 0; t < axes.size(); ++t)
        own |= axes[t] == static_cast<std::int64_t>(a) && is_symbol(tile.shape[t], name_);
      if (along_.at(offsets[a]) != (own ? Along::Begin : Along::Not)) return false;
    }
    return true;
  }

  bool about_places(const Value* v) const {
    return !v || along_.at(v) == Along::Not || along_.at(v) == Along::Place;
  }

  std::optional<Along> loads_places(const Op& op) const {
    const ir::Type& tile = op.result()->type;
    if (!begins_right(op, tile) || !about_places(op.mask()) || !about_places(op.other())) return std::nullopt;
    const bool places = has_axis(tile, name_) || (op.mask() && along_.at(op.mask()) == Along::Place) ||
                        (op.other() && along_.at(op.other()) == Along::Place);
    return places ? Along::Place : Along::Not;
  }

  // To the view that the programs divide among them, where they divide it: tiles of another size would cover
  // more or less of any other place.
  bool stores_places(const Op& op) const {
    const Value* value = op.stored_value();
    if (op.operand(0) != of_grid_ || !begins_right(op, value->type)) return false;
    const auto& axes = op.integers("axes");
    const auto own = std::find_if(value->type.shape.begin(), value->type.shape.end(),
                                  [&](const Dim& d) { return is_symbol(d, name_); });
    if (own == value->type.shape.end()) return false;
    const std::int64_t axis = axes[static_cast<std::size_t>(own - value->type.shape.begin())];
    return axis == grid_axis_ && op.view_offsets()[static_cast<std::size_t>(axis)] == begin_ &&
           about_places(value) && about_places(op.mask());
  }

  const ir::Kernel& kernel_;
  const char* name_;
  bool stored_ = false;
  const Value *begin_ = nullptr, *of_grid_ = nullptr; // program_tile's offset, and its view
  int grid_axis_ = -1;                                // of that view
  std::unordered_map<const Value*, Along> along_;
};

// Where the dimensions lie in views, and what the kernel consists of.
void look_at(const Op& op, ProgramTiles& tiles) {
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
  ir::walk(recorded.body, [&](const Op& op) { look_at(op, tiles); });
  if (!recorded.config_specific)
    for (TileDimension& dimension : tiles.dimensions)
      dimension.free = Follower(recorded, dimension.name).is_free();
  return tiles;
}

} // namespace kiln::cpu
