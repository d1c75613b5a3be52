// Draws a layout as a grid of text that shows the place of each element.
#include <kiln/jit/gpu/layout/layouts.h>

#include <kiln/dsl/error.h>

#include <algorithm>

namespace kiln::gpu {
namespace {

constexpr std::int64_t max_rows = 16, max_cells = 8;

// The input dimensions that have bits, the outermost first, which is the order in which a cell names a place.
std::vector<LinearLayout::Dim> named_sides(const LinearLayout& layout) {
  std::vector<LinearLayout::Dim> sides;
  for (const auto& d : layout.ins())
    if (d.bits > 0) sides.insert(sides.begin(), d);
  return sides;
}

// The logarithm of how many neighbours along a row are, in every row, in consecutive places of the innermost
// dimension.
int run_bits(const LinearLayout& places, const std::string& column_axis, const std::string& innermost) {
  int bits = 0;
  auto continues = [&](const LinearLayout::Dim& d) {
    return places.basis(column_axis, bits, d.name) == (d.name == innermost ? std::int64_t{1} << bits : 0);
  };
  while (bits < places.in_bits(column_axis) && std::ranges::all_of(places.outs(), continues))
    ++bits;
  // A run starts at a multiple of its length only if no other bit of an element reaches the bits of the run.
  for (const auto& d : places.ins())
    for (int i = 0; i < d.bits; ++i)
      if (d.name != column_axis || i >= bits)
        while (bits > 0 && (places.basis(d.name, i, innermost) & ((std::int64_t{1} << bits) - 1)) != 0)
          --bits;
  return bits;
}

} // namespace

std::string picture(const LinearLayout& layout) {
  const int rank = static_cast<int>(layout.outs().size());
  if (!layout.is_surjective()) return "a layout in which some elements have no place:\n" + layout.to_string();
  const LinearLayout places = layout.inverse();
  const std::string column_axis = axis_name(rank - 1), row_axis = axis_name(rank - 2);
  const std::int64_t rows = std::int64_t{1} << places.in_bits(row_axis);
  const auto sides = named_sides(layout);
  if (sides.empty()) return "one element in one place\n";
  const int run = run_bits(places, column_axis, sides.back().name);
  const std::int64_t run_length = std::int64_t{1} << run;
  const std::int64_t cells = (std::int64_t{1} << places.in_bits(column_axis)) >> run;

  auto cell = [&](std::int64_t row, std::int64_t column) {
    LinearLayout::Coordinates element;
    if (rank >= 2) element.emplace_back(row_axis, row);
    if (rank >= 1) element.emplace_back(column_axis, column);
    auto place = places.apply(element);
    std::string text;
    for (const auto& side : sides) {
      auto at = std::find_if(place.begin(), place.end(), [&](const auto& p) { return p.first == side.name; });
      text += (text.empty() ? "" : " ") + side.name.substr(0, 1) + std::to_string(at->second);
      if (&side == &sides.back() && run > 0) text += "-" + std::to_string(at->second + run_length - 1);
    }
    return text;
  };

  std::vector<std::vector<std::string>> grid;
  std::vector<std::string> head{rank >= 2 ? row_axis + " \\ " + column_axis : column_axis};
  auto column_title = [&](std::int64_t c) {
    return run == 0 ? std::to_string(c)
                    : std::to_string(c * run_length) + "-" + std::to_string((c + 1) * run_length - 1);
  };
  for (std::int64_t c = 0; c < std::min(cells, max_cells); ++c)
    head.push_back(column_title(c));
  if (cells > max_cells) head.push_back("...");
  grid.push_back(head);
  for (std::int64_t r = 0; r < std::min(rows, max_rows); ++r) {
    std::vector<std::string> line{rank >= 2 ? std::to_string(r) : ""};
    for (std::int64_t c = 0; c < std::min(cells, max_cells); ++c)
      line.push_back(cell(r, c * run_length));
    if (cells > max_cells) line.push_back("...");
    grid.push_back(line);
  }
  if (rows > max_rows) grid.push_back({"..."});

  std::vector<std::size_t> widths(grid.front().size());
  for (const auto& line : grid)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : grid) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size()) text.append(widths[i] - line[i].size() + 2, ' ');
    }
    text += "\n";
  }
  const int copies_bits = layout.in_bits() - layout.rank();
  if (copies_bits > 0)
    text += "each element is in " + std::to_string(std::int64_t{1} << copies_bits) + " places\n";
  return text;
}

} // namespace kiln::gpu
