// Writes configs and knob values as text.
#include <kiln/autotune/report/report_data.h>

namespace kiln::tune {

std::string value_text(const Knob& knob, std::size_t index) {
  if (index < knob.labels.size()) return knob.labels[index];
  return index < knob.values.size() ? std::to_string(knob.values[index]) : "?";
}

std::string point_text(const std::vector<Knob>& knobs, const Point& point) {
  std::string text;
  for (std::size_t i = 0; i < knobs.size(); ++i)
    text += (text.empty() ? "" : ",") + knobs[i].name + "=" +
            (i < point.size() ? value_text(knobs[i], point[i]) : "?");
  return text;
}

} // namespace kiln::tune
