// Follows, for one dimension at a time, how each value depends on where the program's tile begins.
#include <kiln/jit/cpu/widen.h>

#include <kiln/jit/cpu/plan.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <bit>
#include <optional>
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
    bool stored = false;
    for (const auto& op : kernel_.body.ops) {
      if (!sound_types(*op)) return false;
      if (op->is(Opcode::ViewStore)) {
        if (!stores_places(*op)) return false;
        stored = true;
      } else if (op->is(Opcode::ProgramTile)) {
        if (!defines_begin(*op)) return false;
      } else {
        const auto along = result(*op);
        if (!along) return false;
        for (const auto& r : op->results)
          along_[r.get()] = *along;
      }
    }
    return stored && begin_;
  }

private:
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
    case Opcode::Arange: return is_symbol(op.result()->type.shape[0], name_) ? Along::Number : Along::Not;
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Squeeze:
    case Opcode::Permute: return along_.at(op.operand(0));
    case Opcode::ViewLoad: return loads_places(op);
    case Opcode::Cast: return cast(op);
    case Opcode::Add: return sum(op);
    case Opcode::Expects: return everything(op);
    default: break;
    }
    return ir::is_elementwise(op.code) ? everything(op) : std::nullopt;
  }

  // Numbers stay themselves in 64 bits.
  std::optional<Along> cast(const Op& op) const {
    const Along x = along_.at(op.operand(0));
    const DType from = op.operand(0)->type.dtype, to = op.result()->type.dtype;
    const bool whole = is_integer(from) && (to == DType::I64 || to == DType::U64) && size_of(from) >= 4;
    if (x == Along::Number || x == Along::Begin) return whole ? std::optional(x) : std::nullopt;
    return x;
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
  const Value *begin_ = nullptr, *of_grid_ = nullptr; // program_tile's offset, and its view
  int grid_axis_ = -1;                                // of that view
  std::unordered_map<const Value*, Along> along_;
};

// Where each dimension lies in the kernel's tiles.
struct Tiles {
  std::vector<const char*> names; // of program_tile, in order; all of them symbols
  std::vector<bool> along_rows;   // whether it is the last axis of a view that is loaded or stored

  static std::optional<Tiles> of(const ir::Kernel& kernel) {
    Tiles tiles;
    for (const auto& op : kernel.body.ops)
      if (op->is(Opcode::ProgramTile))
        for (const Dim& d : std::get<ir::Shape>(*op->find("dims"))) {
          std::vector<const char*> names;
          d.collect_symbols(names);
          if (names.size() != 1 || !is_symbol(d, names[0])) return std::nullopt;
          tiles.names.push_back(names[0]);
        }
    tiles.along_rows.resize(tiles.names.size());
    for (const auto& op : kernel.body.ops) {
      if (!op->is(Opcode::ViewLoad) && !op->is(Opcode::ViewStore)) continue;
      const auto& axes = op->integers("axes");
      const ir::Type& tile = op->is(Opcode::ViewStore) ? op->stored_value()->type : op->result()->type;
      for (std::size_t t = 0; t < axes.size(); ++t)
        if (axes[t] == op->operand(0)->type.view_rank - 1)
          for (std::size_t i = 0; i < tiles.names.size(); ++i)
            if (is_symbol(tile.shape[t], tiles.names[i])) tiles.along_rows[i] = true;
    }
    return tiles;
  }
};

// A tile's elements at most. Fewer columns than `narrow` are widened, up to `most_columns`, and rows given up
// for them down to `least_rows`. Where two axes lie along rows, as in a transposition, each should have a
// side of `square`, and the other gives up what is above `long_side`. Measured on Zen 3: copies and
// transpositions of 4096 x 4096 floats.
constexpr std::int64_t most_elements = 16384, most_columns = 4096, narrow = 512, least_rows = 16;
constexpr std::int64_t square = 64, long_side = 256;

struct Axis {
  const char* name;
  std::int64_t size;
  bool free, along_rows;
};

std::int64_t room_for(const std::vector<Axis>& axes, const Axis& axis) {
  std::int64_t others = 1;
  for (const Axis& other : axes)
    if (&other != &axis) others *= other.size;
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most_elements / others)));
}

// Takes from the other axes until there is room for so many, or they have nothing to spare.
void make_room(std::vector<Axis>& axes, const Axis& axis, std::int64_t wanted) {
  while (room_for(axes, axis) < wanted) {
    Axis* largest = nullptr;
    for (Axis& other : axes)
      if (&other != &axis && other.free && other.size > (other.along_rows ? long_side : least_rows) &&
          (!largest || other.size > largest->size))
        largest = &other;
    if (!largest) return;
    largest->size = std::max(largest->along_rows ? long_side : least_rows, largest->size / 2);
  }
}

} // namespace

std::vector<const char*> free_dimensions(const ir::Kernel& recorded) {
  std::vector<const char*> free;
  const auto tiles = Tiles::of(recorded);
  if (recorded.config_specific || !tiles) return free;
  for (const char* name : tiles->names)
    if (Follower(recorded, name).is_free()) free.push_back(name);
  return free;
}

namespace {

Config widened(const ir::Kernel& recorded, const Config& config) {
  const auto free = free_dimensions(recorded);
  if (free.empty()) return config;
  const Tiles tiles = *Tiles::of(recorded);
  std::vector<Axis> axes;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < tiles.names.size(); ++i) {
    const auto size = config.get(tiles.names[i]);
    if (!size || *size <= 0 || *size > most_elements || (elements *= *size) > most_elements) return config;
    const bool is_free = std::find(free.begin(), free.end(), tiles.names[i]) != free.end();
    axes.push_back({tiles.names[i], *size, is_free, tiles.along_rows[i]});
  }
  const bool across = std::count_if(axes.begin(), axes.end(), [](const Axis& a) { return a.along_rows; }) > 1;
  for (Axis& axis : axes) {
    if (!axis.free || !axis.along_rows || axis.size >= (across ? square : narrow)) continue;
    make_room(axes, axis, across ? square : narrow);
    axis.size = std::max(axis.size, std::min(room_for(axes, axis), across ? square : most_columns));
  }
  Config wider = config;
  for (const Axis& axis : axes)
    wider.set(axis.name, axis.size);
  return wider;
}

// No tile is larger than such tiles should be, or goes to scratch, whose part outside of the views would be
// computed in vain.
bool suits(const ir::Kernel& bound) {
  const Plan plan(bound);
  return std::all_of(bound.body.ops.begin(), bound.body.ops.end(), [&](const auto& op) {
    return std::all_of(op->results.begin(), op->results.end(), [&](const auto& r) {
      return !plan.has_buffer(r.get()) && (!r->type.is_tile() || r->type.numel() <= most_elements);
    });
  });
}

} // namespace

Config chosen_tiles(const ir::Kernel& recorded, const passes::PassOptions& options) {
  if (options.debug) return options.config;
  passes::PassOptions wide = options;
  wide.config = widened(recorded, options.config);
  if (wide.config == options.config) return options.config;
  try {
    return suits(*passes::lower_generic(recorded, wide)) ? wide.config : options.config;
  } catch (const UserError&) { // of tiles that are too large now, or of what the config itself is to be told
    return options.config;
  }
}

} // namespace kiln::cpu
