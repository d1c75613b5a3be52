// Converts configs to text and back.
#include <kiln/autotune/records/record.h>

#include <charconv>

namespace kiln::tune {
namespace {

// Calls take(name, value) for each "name=value" between commas, until it returns false.
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
    if (const auto n = number(value)) config.set(name, *n);
    return true;
  });
  return config;
}

std::optional<Point> point_of(const std::vector<Knob>& knobs, std::string_view text) {
  Point point(knobs.size());
  std::vector<bool> given(knobs.size());
  for (std::size_t count = 0; count < knobs.size(); ++count) {
    // Words may contain commas and equal signs, so the end of a value is found by comparing with the knob's
    // values.
    std::size_t longest = 0, knob = 0;
    for (std::size_t k = 0; k < knobs.size(); ++k) {
      const std::string& name = knobs[k].name;
      if (given[k] || !text.starts_with(name) || !text.substr(name.size()).starts_with('=')) continue;
      for (std::size_t i = 0; i < knobs[k].values.size(); ++i) {
        const std::string value = value_text(knobs[k], i);
        const std::string_view rest = text.substr(name.size() + 1);
        const std::size_t length = name.size() + 1 + value.size();
        if (!rest.starts_with(value) || (rest.size() > value.size() && rest[value.size()] != ',')) continue;
        if (length < longest) continue;
        longest = length, knob = k;
        point[k] = static_cast<std::uint16_t>(i);
      }
    }
    if (longest == 0) return std::nullopt;
    given[knob] = true;
    text.remove_prefix(std::min(text.size(), longest + 1));
  }
  if (!text.empty()) return std::nullopt;
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
