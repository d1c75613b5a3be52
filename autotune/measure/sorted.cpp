// Sorts the rows of outputs.
#include <kiln/autotune/measure/sorted.h>

#include <kiln/autotune/measure/appended.h>
#include <kiln/autotune/measure/decoder.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

namespace kiln::tune {

std::vector<std::int64_t> element_places(const Argument& a, int without_axis) {
  const std::int64_t size = size_of(a.dtype);
  std::vector<std::int64_t> places{0};
  if (a.kind == Argument::Kind::pointer) {
    places.clear();
    for (std::int64_t at = 0; at + size <= a.bytes; at += size)
      places.push_back(at);
    return places;
  }
  for (std::size_t axis = 0; axis < a.extents.size(); ++axis) {
    if (static_cast<int>(axis) == without_axis) continue;
    std::vector<std::int64_t> finer;
    finer.reserve(places.size() * static_cast<std::size_t>(std::max<std::int64_t>(0, a.extents[axis])));
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < a.extents[axis]; ++i)
        finer.push_back(place + i * a.strides[axis] * size);
    places = std::move(finer);
  }
  return places;
}

RowSorter::RowSorter(const Situation& s, const MemoryPlan& plan, const ir::Kernel& kernel) {
  const auto columns_of = [&](std::size_t parameter, int axis) {
    const Argument& a = s.arguments[parameter];
    Columns c{parameter, static_cast<std::size_t>(plan.places[parameter].block),
              a.dtype,   plan.places[parameter].data,
              {},        {0}};
    if (a.kind == Argument::Kind::view && axis >= 0) {
      const auto at = static_cast<std::size_t>(axis);
      for (std::int64_t i = 0; i < a.extents[at]; ++i)
        c.rows.push_back(i * a.strides[at] * size_of(a.dtype));
      c.columns = element_places(a, axis);
    } else {
      c.rows = element_places(a);
    }
    return c;
  };
  const auto is_output = [&](std::size_t i) {
    return i < plan.places.size() && plan.places[i].block >= 0 && !s.arguments[i].readonly;
  };
  // Arrays of different lengths have no common rows.
  std::map<std::pair<int, std::size_t>, Group> by_group;
  for (const Append& append : appends_of(kernel)) {
    const auto parameter = static_cast<std::size_t>(append.parameter);
    if (!is_output(parameter)) continue;
    Columns columns = columns_of(parameter, append.axis);
    by_group[{append.group, columns.rows.size()}].push_back(std::move(columns));
  }
  for (auto& [number, group] : by_group)
    groups_.push_back(std::move(group));
  for (const OutputCheck& check : s.outputs) {
    const auto parameter = static_cast<std::size_t>(check.parameter);
    if (check.unordered && is_output(parameter) && !sorts(parameter))
      groups_.push_back({columns_of(parameter, -1)});
  }
}

bool RowSorter::sorts(std::size_t parameter) const {
  for (const Group& group : groups_)
    for (const Columns& columns : group)
      if (columns.parameter == parameter) return true;
  return false;
}

void RowSorter::sort(Blocks& blocks,
                     const std::function<const std::vector<unsigned char>&(std::size_t)>& poison_of) const {
  for (const Group& group : groups_)
    sort_group(group, blocks, poison_of);
}

void RowSorter::sort_group(const Group& all, Blocks& blocks,
                           const std::function<const std::vector<unsigned char>&(std::size_t)>& poison_of) {
  Group group;
  for (const Columns& columns : all)
    if (!blocks[columns.block].empty()) group.push_back(columns);
  if (group.empty()) return;
  std::stable_partition(group.begin(), group.end(), [](const Columns& c) { return !is_float(c.dtype); });
  const std::size_t count = group.front().rows.size();
  std::size_t width = 0; // of a row, in elements
  for (const Columns& c : group)
    width += c.columns.size();
  struct Key {
    double value;
    std::uint64_t bits;
  };
  std::vector<Key> keys(count * width); // row by row
  std::vector<bool> has_pattern(count, false), is_written(count, false);
  std::size_t first = 0;
  for (const Columns& c : group) {
    const auto size = static_cast<std::size_t>(size_of(c.dtype));
    const Decoder decode(c.dtype);
    const std::vector<unsigned char>& poison = poison_of(c.block);
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t e = 0; e < c.columns.size(); ++e) {
        const auto at = static_cast<std::size_t>(c.data + c.rows[r] + c.columns[e]);
        const unsigned char* from = &blocks[c.block][at];
        Key& key = keys[r * width + first + e];
        key = {decode(from), 0};
        std::memcpy(&key.bits, from, size);
        if (poison.empty()) continue;
        if (std::memcmp(from, &poison[at], size) == 0)
          has_pattern[r] = true;
        else
          is_written[r] = true;
      }
    first += c.columns.size();
  }
  const auto is_unwritten = [&](std::size_t r) { return has_pattern[r] && !is_written[r]; };
  const auto before = [&](const Key& a, const Key& b) { // of elements
    if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);
    return a.value != b.value && !std::isnan(a.value) ? a.value < b.value : a.bits < b.bits;
  };
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (is_unwritten(a) != is_unwritten(b)) return is_unwritten(b);
    for (std::size_t e = 0; e < width; ++e) {
      const Key &x = keys[a * width + e], &y = keys[b * width + e];
      if (x.bits != y.bits) return before(x, y);
    }
    return false;
  });
  first = 0;
  for (const Columns& c : group) {
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t e = 0; e < c.columns.size(); ++e)
        std::memcpy(&blocks[c.block][static_cast<std::size_t>(c.data + c.rows[r] + c.columns[e])],
                    &keys[order[r] * width + first + e].bits, static_cast<std::size_t>(size_of(c.dtype)));
    first += c.columns.size();
  }
}

} // namespace kiln::tune
