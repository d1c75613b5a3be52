// Compares texts by their longest common subsequence of lines, first without value numbers and then with
// them.
#include <kiln/jit/cli/support/line_diff.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <sstream>
#include <vector>

namespace kiln::cli {

namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

// Replaces each %number by `change(name)`.
template <class F> std::string rename(const std::string& line, F&& change) {
  std::string out;
  for (std::size_t i = 0; i < line.size();) {
    std::size_t end = i + 1;
    while (line[i] == '%' && end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])))
      ++end;
    std::string piece = line.substr(i, end - i);
    out += end > i + 1 ? change(piece) : piece;
    i = end;
  }
  return out;
}

// The numbered values that a line defines: those before " = ", and the arguments of a region.
std::vector<std::string> names_in(const std::string& line) {
  std::vector<std::string> names;
  rename(line, [&](const std::string& name) {
    names.push_back(name);
    return name;
  });
  return names;
}

enum class Edit { Keep, Remove, Add };
struct Step {
  Edit edit;
  std::size_t before, after; // line numbers
};

std::vector<Step> align(const Lines& a, const Lines& b) {
  std::size_t n = a.size(), m = b.size();
  std::vector<std::vector<std::uint32_t>> longest(n + 1, std::vector<std::uint32_t>(m + 1, 0));
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;)
      longest[i][j] =
          a[i] == b[j] ? longest[i + 1][j + 1] + 1 : std::max(longest[i + 1][j], longest[i][j + 1]);
  std::vector<Step> steps;
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[i] == b[j])
      steps.push_back({Edit::Keep, i++, j++});
    else if (j == m || (i < n && longest[i + 1][j] >= longest[i][j + 1]))
      steps.push_back({Edit::Remove, i++, j});
    else
      steps.push_back({Edit::Add, i, j++});
  }
  return steps;
}

// A line that matched but has other operands than before counts as changed after all.
std::vector<Step> with_renames(const std::vector<Step>& steps, const Lines& before, const Lines& after) {
  std::map<std::string, std::string> renamed;
  std::vector<Step> result;
  for (const Step& step : steps) {
    if (step.edit != Edit::Keep) {
      result.push_back(step);
      continue;
    }
    auto old_names = names_in(before[step.before]), new_names = names_in(after[step.after]);
    // The first occurrence of a name defines it.
    bool same = true;
    for (std::size_t k = 0; k < old_names.size(); ++k)
      same &= renamed.try_emplace(old_names[k], new_names[k]).first->second == new_names[k];
    if (same) {
      result.push_back(step);
    } else {
      result.push_back({Edit::Remove, step.before, step.after});
      result.push_back({Edit::Add, step.before, step.after});
    }
  }
  return result;
}

} // namespace

LineDiff diff_tile_ir(const std::string& before, const std::string& after, int context) {
  Lines a = lines_of(before), b = lines_of(after), blind_a, blind_b;
  // The table of `align` is quadratic, so longer texts are not compared line by line.
  constexpr std::size_t largest = 4000;
  if (a.size() > largest || b.size() > largest)
    return before == after ? LineDiff{}
                           : LineDiff{after, static_cast<int>(a.size()), static_cast<int>(b.size())};
  auto blind = [](const std::string&) { return std::string("%"); };
  for (const std::string& line : a)
    blind_a.push_back(rename(line, blind));
  for (const std::string& line : b)
    blind_b.push_back(rename(line, blind));
  std::vector<Step> steps = with_renames(align(blind_a, blind_b), a, b);

  LineDiff diff;
  std::vector<bool> shown(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].edit == Edit::Keep) continue;
    ++(steps[i].edit == Edit::Remove ? diff.removed : diff.added);
    auto reach = static_cast<std::size_t>(context);
    for (std::size_t k = i - std::min(i, reach); k <= std::min(steps.size() - 1, i + reach); ++k)
      shown[k] = true;
  }
  bool gap = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!shown[i]) {
      gap = true;
      continue;
    }
    if (gap && !diff.text.empty()) diff.text += "  ...\n";
    gap = false;
    bool removed = steps[i].edit == Edit::Remove;
    diff.text += removed ? "- " : steps[i].edit == Edit::Add ? "+ " : "  ";
    diff.text += (removed ? a[steps[i].before] : b[steps[i].after]) + "\n";
  }
  return diff;
}

} // namespace kiln::cli
