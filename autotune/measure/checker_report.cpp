// Says which outputs a checker can compare and, if one cannot be compared, why.
#include <kiln/autotune/measure/checker.h>

#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace kiln::tune {

namespace {

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

} // namespace

std::vector<OutputComparison> Checker::comparable() const {
  std::vector<OutputComparison> all;
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
    if (outputs_[i].values.empty() || how_[i].ignored || how_[i].declared.compare) continue;
    all.push_back(
        compare(outputs_[i], outputs_[i].values, poison_of(i, Pattern::first), allowance_for(reference_, i))
            .compared);
    all.back().parameter = how_[i].parameter;
    all.back().unordered = how_[i].sorted;
    all.back().elements = how_[i].elements;
  }
  sort_by_parameter(all);
  return all;
}

std::string Checker::incomparable(bool* by_values) const {
  constexpr double most_varying = 0.1;
  const std::string remedy = "; tune with arguments that hold real data, or say in TunedOptions::outputs how "
                             "this parameter is compared ({.parameter = ";
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(reference_.kernel->recorded());
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
    const ReferenceOutput& output = outputs_[i];
    const auto parameter = static_cast<std::size_t>(how_[i].parameter);
    if (output.values.empty() || how_[i].ignored || how_[i].declared.compare || !uses[parameter].written)
      continue;
    const std::string number = std::to_string(how_[i].parameter),
                      what = "parameter " + number + " (" + std::string(kiln::name(output.dtype)) + "): ";
    if (how_[i].varying > most_varying && how_[i].declared.relative == 0 && how_[i].declared.absolute == 0)
      return what + (situation_.host_reference ? "the default" : situation_.right) +
             " computes something else in a second launch with the same inputs, for " +
             percent_text(how_[i].varying) +
             " of the elements; if only their order differs, declare it in "
             "TunedOptions::outputs ({.parameter = " +
             number + ", .unordered = true})";
    const OutputComparison c =
        compare(output, output.values, poison_of(i, Pattern::first), allowance_for(reference_, i)).compared;
    if (c.compared > 0) continue;
    const bool none_written =
        std::all_of(output.unwritten.begin(), output.unwritten.end(), [](bool b) { return b; }) &&
        !output.unwritten.empty();
    if (by_values) *by_values = !none_written;
    return what + "none of its " + std::to_string(how_[i].elements) + " elements can be compared, because " +
           (none_written ? situation_.right + " writes none of them with these inputs"
                         : "all that " + situation_.right +
                               " writes are NaN or infinite with these inputs, or become so when the inputs "
                               "change by a rounding error") +
           remedy + number + ", .ignored = true})";
  }
  return {};
}

} // namespace kiln::tune
