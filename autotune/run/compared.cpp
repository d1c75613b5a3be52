// Writes what a verification compared as text.
#include <kiln/autotune/run/compared.h>

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tune {

std::string text_of(const OutputComparison& o) {
  std::string text = fmt::format("parameter {}: {} of {} elements ({:.3g} %){}", o.parameter, o.compared,
                                 o.elements, 100 * o.share(), o.unordered ? ", in any order" : "");
  if (o.exceptions > 0)
    text += fmt::format(", {} of which differ where rounding errors decide", o.exceptions);
  if (o.compared > 0)
    text +=
        fmt::format("; closest to its bound is element {}: {:.9g} instead of {:.9g}, where {:.3g} is allowed",
                    o.worst, o.value, o.reference, o.bound);
  return text;
}

std::vector<std::string> warnings_of(const std::vector<OutputComparison>& outputs) {
  std::vector<std::string> warnings;
  for (const OutputComparison& o : outputs) {
    if (o.elements == 0) continue;
    if (o.share() < OutputComparison::few)
      warnings.push_back(
          fmt::format("only {:.3g} % of the elements of parameter {} were compared; the others are NaN, "
                      "infinite or not written with these inputs, so tune with arguments that hold "
                      "real data",
                      100 * o.share(), o.parameter));
    else if (static_cast<double>(o.vague) > (1 - OutputComparison::few) * static_cast<double>(o.compared))
      warnings.push_back(
          fmt::format("rounding errors change {:.3g} % of the elements of parameter {} by about their own "
                      "value, so that wrong configs may not be noticed; tune with arguments that hold "
                      "real data, or declare a tolerance in TunedOptions::outputs",
                      100 * static_cast<double>(o.vague) / static_cast<double>(o.elements), o.parameter));
  }
  return warnings;
}

} // namespace kiln::tune
