// Plans a call of assign: broadcasts operands, merges axes, chooses tiles, and detects overlap.
#include <kiln/jit/runtime/assign/assign_plan.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace kiln::detail {
namespace {

std::string list(int rank, const std::int64_t* extents) {
  std::string s = "{";
  for (int i = 0; i < rank; ++i)
    s += (i ? ", " : "") + std::to_string(extents[i]);
  return s + "}";
}

[[noreturn, gnu::cold]] void does_not_broadcast(int operand, int rank, const std::int64_t* extents,
                                                const AssignTarget& out, const Location& here) {
  throw UserError(here, "assign: operand " + std::to_string(operand) + " of the expression has extents " +
                            list(rank, extents) + ", which do not broadcast to the output's " +
                            list(out.rank, out.extents) +
                            "; each extent must be the output's or 1, counted from the last");
}
[[noreturn, gnu::cold]] void repeats(const AssignTarget& out, int axis, const Location& here) {
  throw UserError(here, "assign: the output with extents " + list(out.rank, out.extents) + " and strides " +
                            list(out.rank, out.strides) + " repeats its elements along axis " +
                            std::to_string(axis) +
                            ", whose stride is 0; assign to a view without broadcast axes");
}

void exchange(AssignPlan& plan, int a, int b) {
  std::swap(plan.extents[a], plan.extents[b]);
  std::swap(plan.out.strides[a], plan.out.strides[b]);
  for (int v = 0; v < plan.view_count; ++v)
    std::swap(plan.views[v].strides[a], plan.views[v].strides[b]);
}

// Reverses the direction in which all views traverse an axis.
void flip(AssignPlan& plan, int axis) {
  auto turn = [&](AssignPlan::View& v) {
    v.data += (plan.extents[axis] - 1) * v.strides[axis] * size_of(v.dtype);
    v.strides[axis] = -v.strides[axis];
  };
  turn(plan.out);
  for (int v = 0; v < plan.view_count; ++v)
    turn(plan.views[v]);
}

// Whether axes a and b can be merged: in every view, a step along `a` is as far as `extent` steps along `b`.
bool merges(const AssignPlan& plan, int a, int b) {
  std::int64_t extent = plan.extents[b];
  if (plan.out.strides[a] != plan.out.strides[b] * extent) return false;
  for (int v = 0; v < plan.view_count; ++v)
    if (plan.views[v].strides[a] != plan.views[v].strides[b] * extent) return false;
  return true;
}

struct Span {
  std::uintptr_t low, high; // bytes
  bool meets(const Span& other) const { return low < other.high && other.low < high; }
};
Span span_of(const AssignPlan& plan, const AssignPlan::View& v) {
  std::int64_t low = 0, high = 1;
  for (int a = 0; a < plan.rank; ++a) {
    std::int64_t reach = (plan.extents[a] - 1) * v.strides[a];
    (reach < 0 ? low : high) += reach;
  }
  auto base = reinterpret_cast<std::intptr_t>(v.data);
  return {static_cast<std::uintptr_t>(base + low * size_of(v.dtype)),
          static_cast<std::uintptr_t>(base + high * size_of(v.dtype))};
}

// For positive, descending strides: whether each stride exceeds the distance that all inner axes together
// span, so that different indices are different elements.
bool is_nested(const AssignPlan& plan) {
  std::int64_t reach = 0;
  for (int a = plan.rank - 1; a >= 0; --a) {
    if (plan.extents[a] > 1 && plan.out.strides[a] <= reach) return false;
    reach += (plan.extents[a] - 1) * plan.out.strides[a];
  }
  return true;
}

// Whether two indices of the output, whose strides are nested, are `distance` elements apart. The number of
// steps along the outermost axis has three candidates, since the inner axes cannot make up for a whole
// stride; recursion decides the rest.
bool is_distance(const AssignPlan& plan, std::int64_t distance, int axis) {
  if (axis == plan.rank) return distance == 0;
  std::int64_t stride = plan.out.strides[axis], most = plan.extents[axis] - 1;
  std::int64_t first = distance / stride - 1;
  for (std::int64_t digit = first; digit <= first + 2; ++digit)
    if (-most <= digit && digit <= most && is_distance(plan, distance - digit * stride, axis + 1))
      return true;
  return false;
}

// A heuristic. On a CPU, the work of several vectors that fits well into L2. On a GPU, eight elements for
// each of the 128 threads of a block: two 16-byte accesses for floats, with few enough registers for several
// blocks.
std::int64_t tile_elements_of(Device device) { return device.is_cpu() ? 8192 : 1024; }

// Rows of fewer elements are narrower than any vector, and there must be enough of them. Rows with padding
// are as long as the distance between them.
constexpr std::int64_t most_narrow = 15, most_padded = 16, least_rows = 16;

// Merges narrow rows that follow one another in the output, or have a few elements of padding between them,
// into one long axis, if every operand varies along all of it, or repeats one row or one column. The vectors
// of a CPU then span several rows. They load the padding with the rows, and do not store to it.
void merge_narrow_rows(AssignPlan& plan) {
  const int row = plan.rank - 2, column = plan.rank - 1;
  if (row < 0) return;
  const std::int64_t width = plan.extents[column];
  if (width > most_narrow || plan.extents[row] < least_rows || plan.out.strides[column] != 1) return;
  const std::int64_t apart = plan.out.strides[row]; // at least the width, unless elements share addresses
  if (apart < width || (apart > width && apart > most_padded)) return;
  const auto follows = [&](const AssignPlan::View& v) { return v.strides[row] == apart * v.strides[column]; };
  for (int v = 0; v < plan.view_count; ++v)
    if (const auto& view = plan.views[v];
        !follows(view) && view.strides[row] != 0 && view.strides[column] != 0 && view.strides[column] != 1)
      return;
  plan.narrow = static_cast<int>(apart);
  plan.width = static_cast<int>(width);
  const auto merge = [&](AssignPlan::View& v) {
    v.along_rows = follows(v)               ? AlongRows::All
                   : v.strides[row] == 0    ? AlongRows::Row
                   : v.strides[column] == 0 ? AlongRows::Column
                                            : AlongRows::Apart;
    v.row_stride = v.strides[row];
    if (v.along_rows != AlongRows::Column) v.strides[row] = v.strides[column];
  };
  merge(plan.out);
  for (int v = 0; v < plan.view_count; ++v)
    merge(plan.views[v]);
  plan.extents[row] = (plan.extents[row] - 1) * apart + width;
  --plan.rank;
}

// Exchanges the last two axes if the rows are narrow and some operand has a plane for each column. Vectors
// then lie along the rows' axis, where they read that operand as it lies in memory, and all columns of the
// output are interleaved in registers.
void exchange_narrow_rows(AssignPlan& plan) {
  const int row = plan.rank - 2, column = plan.rank - 1;
  if (row < 0 || plan.narrow > 0) return;
  if (plan.extents[column] > most_narrow || plan.extents[row] < least_rows || plan.out.strides[column] != 1)
    return;
  const auto has_planes = [&](const AssignPlan::View& v) {
    return v.strides[row] == 1 && v.strides[column] != 0;
  };
  if (std::none_of(plan.views, plan.views + plan.view_count, has_planes)) return;
  plan.columns = static_cast<int>(plan.extents[column]);
  exchange(plan, row, column);
}

// A CPU loads a tile of a transposed operand as so many lines of each column, which it uses in full.
constexpr std::int64_t lines_of_tile = 64;

// The axis along which the elements of some operand follow one another in memory, if that is not the last
// axis; otherwise the last axis.
int axis_of_lines(const AssignPlan& plan) {
  const int last = plan.rank - 1;
  for (int v = 0; v < plan.view_count; ++v)
    for (int a = 0; a < last; ++a)
      if (plan.views[v].strides[a] == 1 && plan.extents[a] > 1 && plan.views[v].strides[last] != 0 &&
          plan.narrow == 0 && plan.columns == 0)
        return a;
  return last;
}

} // namespace

bool AssignKey::equals(const AssignKey& other, int view_count) const {
  return std::memcmp(this, &other,
                     offsetof(AssignKey, views) + sizeof(View) * static_cast<std::size_t>(view_count)) == 0;
}

void plan_assign(AssignPlan& plan, const AssignSite& site, const AssignTarget& out,
                 const AssignOperand* operands, const Location& here) {
  plan.out.data = static_cast<char*>(out.data);
  plan.out.dtype = site.out;
  plan.out.along_rows = AlongRows::All;
  for (int i = 0; i < site.leaf_count; ++i) {
    const AssignLeaf& leaf = site.leaves[i];
    if (leaf.kind != AssignLeaf::Kind::View) continue;
    AssignPlan::View& view = plan.views[plan.view_count++];
    view.data = const_cast<char*>(static_cast<const char*>(operands[i].data));
    view.dtype = leaf.dtype;
    view.along_rows = AlongRows::All;
  }
  // Keeps the axes of more than one element.
  int repeated = -1;
  for (int axis = 0; axis < out.rank; ++axis) {
    std::int64_t extent = out.extents[axis];
    bool keep = extent > 1;
    plan.elements *= extent;
    if (keep && out.strides[axis] == 0 && repeated < 0) repeated = axis;
    plan.extents[plan.rank] = extent;
    plan.out.strides[plan.rank] = out.strides[axis];
    int v = 0;
    for (int i = 0; i < site.leaf_count; ++i) {
      const AssignLeaf& leaf = site.leaves[i];
      if (leaf.kind != AssignLeaf::Kind::View) continue;
      int own = axis - (out.rank - leaf.rank);
      std::int64_t stride = 0;
      if (own >= 0) {
        std::int64_t have = operands[i].extents[own];
        if (have == extent)
          stride = operands[i].strides[own];
        else if (have != 1)
          does_not_broadcast(i, leaf.rank, operands[i].extents, out, here);
      }
      plan.views[v++].strides[plan.rank] = stride;
    }
    plan.rank += keep;
  }
  if (plan.elements == 0) return; // whatever its strides are
  if (repeated >= 0) repeats(out, repeated, here);
  // Orders axes by the output's strides, largest first, after making all of them positive.
  for (int a = 0; a < plan.rank; ++a) {
    if (plan.out.strides[a] < 0) flip(plan, a);
    for (int b = a; b > 0 && plan.out.strides[b - 1] < plan.out.strides[b]; --b)
      exchange(plan, b - 1, b);
  }
  int last = 0;
  for (int a = 1; a < plan.rank; ++a) {
    bool merge = merges(plan, last, a);
    if (!merge) ++last;
    plan.extents[last] = merge ? plan.extents[last] * plan.extents[a] : plan.extents[a];
    plan.out.strides[last] = plan.out.strides[a];
    for (int v = 0; v < plan.view_count; ++v)
      plan.views[v].strides[last] = plan.views[v].strides[a];
  }
  if (plan.rank > 0) plan.rank = last + 1;
  if (plan.rank == 0) { // a single element
    plan.rank = 1;
    plan.extents[0] = 1;
    plan.out.strides[0] = 1;
    for (int v = 0; v < plan.view_count; ++v)
      plan.views[v].strides[0] = 1;
  }
}

// Uses few tile sizes, so that few variants are compiled. A tile that is too large costs nothing, because
// loops end at the end of the output. With one axis there is one size. With more, the inner axis grows in
// factors of 8 and the others in factors of 4, up to about tile_elements elements of the output.
void choose_tile(AssignPlan& plan, Device device) {
  if (device.is_cpu()) merge_narrow_rows(plan), exchange_narrow_rows(plan);
  const std::int64_t tile_elements = tile_elements_of(device);
  const int last = plan.rank - 1, down = device.is_cpu() ? axis_of_lines(plan) : last;
  std::int64_t left = tile_elements;
  for (int a = last; a >= 0; --a) {
    std::int64_t tile;
    if (a == last && plan.narrow > 0) {
      tile = std::bit_floor(static_cast<std::uint64_t>(tile_elements / plan.narrow));
      while (tile > 64 && tile / 8 * plan.narrow >= plan.extents[a])
        tile /= 8;
    } else if (a == last && plan.columns > 0) {
      tile = std::bit_floor(static_cast<std::uint64_t>(tile_elements / plan.columns));
      while (tile > 64 && tile / 8 >= plan.extents[a])
        tile /= 8;
    } else if (a == last - 1 && plan.columns > 0) {
      tile = plan.columns;
    } else if (a == last) {
      tile = down == last ? tile_elements : tile_elements / lines_of_tile;
      while (plan.rank > 1 && tile > 64 && tile / 8 >= plan.extents[a])
        tile /= 8;
    } else {
      tile = 1;
      const std::int64_t most = down == last ? left : a == down ? std::min(left, lines_of_tile) : 1;
      while (tile < plan.extents[a] && 4 * tile <= most)
        tile *= 4;
    }
    plan.tile[a] = tile;
    left /= std::min(plan.tile_elements(a), plan.extents[a]);
  }
}

void make_key(AssignKey& key, const AssignPlan& plan) {
  key.rank = static_cast<std::uint8_t>(plan.rank);
  key.narrow = static_cast<std::uint8_t>(plan.narrow);
  key.width = static_cast<std::uint8_t>(plan.width);
  key.columns = static_cast<std::uint8_t>(plan.columns);
  key.out_unit = plan.out.strides[plan.rank - 1] == 1;
  for (int a = 0; a < max_rank; ++a) {
    const bool power = a < plan.rank && (plan.columns == 0 || a != plan.rank - 2);
    key.tile_log[a] =
        power ? static_cast<std::uint8_t>(std::countr_zero(static_cast<std::uint64_t>(plan.tile[a]))) : 0;
  }
  for (int v = 0; v < plan.view_count; ++v) {
    unsigned full = 0, unit = 0;
    for (int a = 0; a < plan.rank; ++a) {
      std::int64_t stride = plan.views[v].strides[a];
      if (stride != 0) full |= 1u << a, unit = stride == 1;
    }
    key.views[v] = {static_cast<std::uint8_t>(full), static_cast<std::uint8_t>(unit),
                    plan.views[v].along_rows};
  }
}

bool needs_temporary(const AssignPlan& plan) {
  Span out = span_of(plan, plan.out);
  for (int v = 0; v < plan.view_count; ++v) {
    const AssignPlan::View& view = plan.views[v];
    if (!out.meets(span_of(plan, view))) continue;
    bool same_strides = size_of(view.dtype) == size_of(plan.out.dtype) &&
                        std::equal(view.strides, view.strides + plan.rank, plan.out.strides);
    if (!same_strides || !is_nested(plan)) return true;
    std::int64_t bytes = view.data - plan.out.data;
    if (bytes == 0) continue; // in place: each element is read where it is written
    if (bytes % size_of(view.dtype) != 0 || is_distance(plan, bytes / size_of(view.dtype), 0)) return true;
  }
  return false;
}

} // namespace kiln::detail
