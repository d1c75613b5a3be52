// Follows, for one dimension at a time, how each value depends on where the program's tile begins.
#include <kiln/jit/cpu/widen.h>

#include <kiln/jit/cpu/plan.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <bit>
#include <limits>
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

enum class Freedom {
  None,  // the size of its tiles can be told
  Split, // not if tiles are split in equal parts
  Free,  // nor if they are anything else
};

// Decides about one dimension. Each rule gives nothing where it finds that the size can be told.
class Follower {
public:
  Follower(const ir::Kernel& kernel, const char* name) : kernel_(kernel), name_(name) {}

  Freedom freedom() {
    for (const auto& arg : kernel_.body.args)
      along_[arg.get()] = Along::Not;
    if (!follow(kernel_.body) || !stored_ || !begin_) return Freedom::None;
    return elsewhere_ ? Freedom::Split : Freedom::Free;
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
  bool stores_places(const Op& op) {
    const Value* value = op.stored_value();
    if (!begins_right(op, value->type)) return false;
    const auto& axes = op.integers("axes");
    const auto own = std::find_if(value->type.shape.begin(), value->type.shape.end(),
                                  [&](const Dim& d) { return is_symbol(d, name_); });
    if (own == value->type.shape.end()) return false;
    const std::int64_t axis = axes[static_cast<std::size_t>(own - value->type.shape.begin())];
    elsewhere_ |= op.operand(0) != of_grid_ || axis != grid_axis_ ||
                  op.view_offsets()[static_cast<std::size_t>(axis)] != begin_;
    return about_places(value) && about_places(op.mask());
  }

  const ir::Kernel& kernel_;
  const char* name_;
  bool stored_ = false, elsewhere_ = false;           // elsewhere: than where the programs divide their view
  const Value *begin_ = nullptr, *of_grid_ = nullptr; // program_tile's offset, and its view
  int grid_axis_ = -1;                                // of that view
  std::unordered_map<const Value*, Along> along_;
};

// Where each dimension lies in the kernel's tiles.
struct Tiles {
  std::vector<const char*> names;  // of program_tile, in order; all of them symbols
  std::vector<bool> along_rows;    // whether it is the last axis of a view that is loaded or stored
  std::vector<bool> columns, rows; // whether it is the last axis of such a view of several, and another one
  bool loops = false, reduces = false;

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
    for (auto* of_names : {&tiles.along_rows, &tiles.columns, &tiles.rows})
      of_names->resize(tiles.names.size());
    tiles.look_at(kernel.body);
    return tiles;
  }

private:
  void look_at(const ir::Region& region) {
    for (const auto& op : region.ops) {
      for (const auto& inner : op->regions)
        look_at(*inner);
      loops |= op->is(Opcode::For);
      reduces |= op->is(Opcode::Reduce);
      if (!op->is(Opcode::ViewLoad) && !op->is(Opcode::ViewStore)) continue;
      const auto& axes = op->integers("axes");
      const ir::Type& tile = op->is(Opcode::ViewStore) ? op->stored_value()->type : op->result()->type;
      const int last = op->operand(0)->type.view_rank - 1;
      for (std::size_t t = 0; t < axes.size(); ++t)
        for (std::size_t i = 0; i < names.size(); ++i) {
          if (!is_symbol(tile.shape[t], names[i])) continue;
          if (axes[t] == last) along_rows[i] = true;
          if (last > 0) (axes[t] == last ? columns : rows)[i] = true;
        }
    }
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

namespace {

std::vector<const char*> dimensions_of(const ir::Kernel& recorded, Freedom least) {
  std::vector<const char*> found;
  const auto tiles = Tiles::of(recorded);
  if (recorded.config_specific || !tiles) return found;
  for (const char* name : tiles->names)
    if (Follower(recorded, name).freedom() >= least) found.push_back(name);
  return found;
}

} // namespace

std::vector<const char*> free_dimensions(const ir::Kernel& recorded) {
  return dimensions_of(recorded, Freedom::Free);
}
std::vector<const char*> splittable_dimensions(const ir::Kernel& recorded) {
  return dimensions_of(recorded, Freedom::Split);
}

namespace {

bool contains(const std::vector<const char*>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Elements of the largest tile, to one along a dimension.
std::int64_t elements_of_one(const ir::Region& region, const char* name, const Config& config) {
  std::int64_t most = 1;
  for (const auto& op : region.ops) {
    for (const auto& inner : op->regions)
      most = std::max(most, elements_of_one(*inner, name, config));
    for (const auto& r : op->results) {
      if (!r->type.is_tile() || !has_axis(r->type, name)) continue;
      std::int64_t elements = 1;
      for (const Dim& d : r->type.shape)
        if (!is_symbol(d, name) && __builtin_mul_overflow(elements, d.bind(config), &elements))
          elements = std::numeric_limits<std::int64_t>::max();
      most = std::max(most, elements);
    }
  }
  return most;
}

// Rows that are reduced should lie in the innermost cache from the first pass to the last, and they often lie
// a power of two apart, where no more of them do than the cache has ways.
std::int64_t fewer_rows(std::int64_t rows, std::int64_t elements_of_row) {
  constexpr std::int64_t most_rows = 8, most_kept = 4096;
  const std::int64_t most = std::clamp<std::int64_t>(most_kept / elements_of_row, 1, most_rows);
  std::int64_t parts = (rows + most - 1) / most;
  while (rows % parts != 0)
    ++parts;
  return rows / parts;
}

// Down columns, a program should read long pieces of rows, as far as that leaves every thread some: the
// extents are not known yet.
std::int64_t more_columns(std::int64_t columns, int threads) {
  constexpr std::int64_t most = 512, least = 64, of_all_threads = 1024;
  const auto share = std::bit_floor(static_cast<std::uint64_t>(of_all_threads / std::max(threads, 1)));
  return std::max(columns, std::clamp(static_cast<std::int64_t>(share), least, most));
}

// Of a kernel that goes down the columns or along the rows of matrices.
Config for_reductions(const ir::Kernel& recorded, const Tiles& tiles, const Config& config, int threads) {
  const auto free = free_dimensions(recorded), splittable = splittable_dimensions(recorded);
  Config chosen = config;
  for (std::size_t i = 0; i < tiles.names.size(); ++i) {
    const char* name = tiles.names[i];
    const auto size = config.get(name);
    if (!size || *size <= 0 || tiles.rows[i] == tiles.columns[i]) continue;
    if (tiles.columns[i] && tiles.loops && contains(free, name))
      chosen.set(name, more_columns(*size, threads));
    if (tiles.rows[i] && contains(splittable, name))
      chosen.set(name, fewer_rows(*size, elements_of_one(recorded.body, name, config)));
  }
  return chosen;
}

Config for_elements(const ir::Kernel& recorded, const Tiles& tiles, const Config& config) {
  const auto free = free_dimensions(recorded);
  std::vector<Axis> axes;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < tiles.names.size(); ++i) {
    const auto size = config.get(tiles.names[i]);
    if (!size || *size <= 0 || *size > most_elements || (elements *= *size) > most_elements) return config;
    axes.push_back({tiles.names[i], *size, contains(free, tiles.names[i]), tiles.along_rows[i]});
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
// computed in vain. Those of reductions do; they should stay in the innermost cache.
bool suits(const ir::Kernel& bound, bool reduces) {
  constexpr std::int64_t most_kept = 4096;
  const Plan plan(bound);
  auto suits = [&](auto&& self, const ir::Region& region) -> bool {
    return std::all_of(region.ops.begin(), region.ops.end(), [&](const auto& op) {
      return std::all_of(op->results.begin(), op->results.end(),
                         [&](const auto& r) {
                           const std::int64_t elements = r->type.is_tile() ? r->type.numel() : 1;
                           return reduces ? !plan.has_buffer(r.get()) || elements <= most_kept
                                          : !plan.has_buffer(r.get()) && elements <= most_elements;
                         }) &&
             std::all_of(op->regions.begin(), op->regions.end(),
                         [&](const auto& inner) { return self(self, *inner); });
    });
  };
  return suits(suits, bound.body);
}

} // namespace

Config chosen_tiles(const ir::Kernel& recorded, const passes::PassOptions& options, int threads) {
  const auto tiles = Tiles::of(recorded);
  if (options.debug || !tiles || splittable_dimensions(recorded).empty()) return options.config;
  passes::PassOptions chosen = options;
  try {
    const bool reduces = tiles->loops || tiles->reduces;
    chosen.config = reduces ? for_reductions(recorded, *tiles, options.config, threads)
                            : for_elements(recorded, *tiles, options.config);
    const bool larger = std::any_of(tiles->names.begin(), tiles->names.end(), [&](const char* name) {
      return chosen.config.get(name) > options.config.get(name);
    });
    if (larger && !suits(*passes::lower_generic(recorded, chosen), reduces)) return options.config;
  } catch (const UserError&) { // of tiles that are too large now, or of what the config itself is to be told
    return options.config;
  }
  return chosen.config;
}

} // namespace kiln::cpu
