// Configs as text, and back.
#include <kiln/autotune/records/record.h>

#include <kiln/dsl/symbol.h>

#include <charconv>

namespace kiln::tune {
namespace {

// Calls take(name, value) for each "name=value" between commas; false from it ends the walk.
template <class F> bool for_each_setting(std::string_view text, F take) {
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    const std::string_view item = text.substr(0, end);
    const std::size_t equals = item.find('=');
    if (equals == item.npos || !take(item.substr(0, equals), item.substr(equals + 1))) return false;
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  return true;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string value_text(const Knob& knob, std::size_t index) {
  return knob.labels.empty() ? std::to_string(knob.values[index]) : knob.labels[index];
}

} // namespace

Config config_of(std::string_view text) {
  Config config;
  for_each_setting(text, [&](std::string_view name, std::string_view value) {
    if (const auto n = number(value)) config.set(intern(name), *n);
    return true;
  });
  return config;
}

std::optional<Point> point_of(const std::vector<Knob>& knobs, std::string_view text) {
  Point point(knobs.size());
  std::vector<bool> given(knobs.size());
  const bool fits = for_each_setting(text, [&](std::string_view name, std::string_view value) {
    for (std::size_t k = 0; k < knobs.size(); ++k) {
      if (knobs[k].name != name) continue;
      for (std::size_t i = 0; i < knobs[k].values.size(); ++i)
        if (value_text(knobs[k], i) == value) {
          point[k] = static_cast<std::uint16_t>(i);
          given[k] = true;
          return true;
        }
      return false;
    }
    return false;
  });
  for (const bool g : given)
    if (!g) return std::nullopt;
  if (!fits) return std::nullopt;
  return point;
}

std::string config_text(const std::vector<Knob>& knobs, const Point& point) {
  std::string text;
  for (std::size_t k = 0; k < knobs.size(); ++k) {
    if (k) text += ',';
    text += knobs[k].name;
    text += '=';
    text += value_text(knobs[k], point[k]);
  }
  return text;
}

} // namespace kiln::tune
