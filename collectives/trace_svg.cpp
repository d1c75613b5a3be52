// Draws a trace as a picture.
#include <kiln/collectives/trace.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace kiln::collectives {
namespace {

// The colors of Okabe and Ito (2008), which people with color blindness can distinguish.
constexpr std::array palette{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"};

constexpr int left = 150, width = 850, row = 24, gap = 12, top = 30;

std::string escaped(const std::string& bytes) {
  using nlohmann::json; // puts U+FFFD in place of what is not UTF-8
  const auto text =
      json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else if (static_cast<unsigned char>(c) >= ' ')
      result += c;
  }
  return result;
}

// The tag of a span's call, or else its collective: what spans have a color for.
std::string call_of(const std::string& name) {
  const std::size_t open = name.find('['), close = name.find(']');
  if (open != std::string::npos && close != std::string::npos && close > open)
    return name.substr(open + 1, close - open - 1);
  return name.substr(0, name.find(' '));
}

template <class... T> std::string format(const char* text, T... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, text, values...);
  return buffer;
}

std::string text_at(int x, int y, const char* anchor, const std::string& text) {
  return format("<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor) + escaped(text) + "</text>\n";
}

// 1, 2 or 5 times a power of ten, for about eight marks.
Nanoseconds mark_distance(Nanoseconds duration) {
  Nanoseconds distance = 1;
  for (int i = 0; distance * 8 < duration; ++i)
    distance = i % 3 == 1 ? distance / 2 * 5 : distance * 2;
  return distance;
}

} // namespace

std::string Trace::svg() const {
  const std::vector<Span> list = spans();
  Nanoseconds begin = list.empty() ? 0 : list[0].begin, end = begin + 1;
  std::map<int, int> rows; // of the ranks, from the top
  for (const Span& s : list) {
    begin = std::min(begin, s.begin), end = std::max(end, s.end);
    rows[s.rank] = 0;
  }
  int next = 0;
  for (auto& entry : rows)
    entry.second = next++;
  const auto y_of = [&](int rank, Track track) {
    return top + rows[rank] * (2 * row + gap) + (track == Track::transfers ? row : 0);
  };
  const auto x_of = [&](Nanoseconds t) {
    return left + static_cast<double>(t - begin) / static_cast<double>(end - begin) * width;
  };
  struct Entry {
    int x, y;
    std::string color;
  };
  const int bottom = top + next * (2 * row + gap);
  std::map<std::string, Entry> legend; // of the calls
  int x = left, y = bottom + 8;
  for (const Span& s : list) {
    const std::string call = call_of(s.name);
    if (legend.count(call)) continue;
    const int wide = 34 + 7 * static_cast<int>(call.size());
    if (x > left && x + wide > left + width) x = left, y += 20;
    const char* color = palette[legend.size() % palette.size()];
    legend[call] = {x, y, color};
    x += wide;
  }
  const int height = y + 22;
  std::string text = format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" "
                            "fill=\"white\"/>\n",
                            left + width + 20, height, left + width + 20, height);
  const Nanoseconds distance = mark_distance(end - begin);
  for (Nanoseconds t = 0; t <= end - begin; t += distance) {
    const int mark = static_cast<int>(x_of(begin + t));
    text += format("<path d=\"M%d %dV%d\" stroke=\"#ddd\"/>\n", mark, top - 6, bottom);
    text += text_at(mark, top - 10, "middle", format("%g ms", static_cast<double>(t) * 1e-6));
  }
  for (const auto& entry : rows) {
    const std::string rank = "rank " + std::to_string(entry.first);
    text += text_at(left - 10, y_of(entry.first, Track::computation) + 16, "end", rank + " computes");
    text += text_at(left - 10, y_of(entry.first, Track::transfers) + 16, "end", "receives");
  }
  for (const Span& s : list) {
    const double from = x_of(s.begin), wide = std::max(x_of(s.end) - from, 0.5);
    text += format("<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"%s><title>", from,
                   y_of(s.rank, s.track) + 2, wide, row - 4, legend.at(call_of(s.name)).color.c_str(),
                   s.track == Track::transfers ? " fill-opacity=\"0.55\"" : "");
    text += escaped(s.name) + format(", %.3f ms", static_cast<double>(s.end - s.begin) * 1e-6);
    if (s.track == Track::transfers) text += format(", %lld bytes", static_cast<long long>(s.bytes));
    text += "</title></rect>\n";
  }
  for (const auto& [call, at] : legend) {
    text += format("<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", at.x, at.y,
                   at.color.c_str());
    text += text_at(at.x + 16, at.y + 10, "start", call);
  }
  return text + "</svg>\n";
}

} // namespace kiln::collectives
