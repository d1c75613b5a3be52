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

bool is_any_written(const std::vector<bool>& unwritten, const std::vector<bool>& members) {
  for (std::size_t i = 0; i < unwritten.size(); ++i)
    if (!unwritten[i] && (members.empty() || members[i])) return true;
  return false;
}

} // namespace

std::vector<OutputComparison> Checker::comparable() const {
  std::vector<OutputComparison> all;
  for (const ComparedOutput& output : how_) {
    const ReferenceOutput& reference = outputs_[output.block];
    if (reference.values.empty() || output.ignored() || output.declared.compare) continue;
    all.push_back(compare(reference, reference.values, poison_of(output.block, Pattern::first),
                          allowance_for(reference_, output), Strictness::all, output.members)
                      .compared);
    all.back().parameter = output.parameter;
    all.back().unordered = output.sorted;
  }
  return all;
}

std::string Checker::incomparable(bool* by_values) const {
  constexpr double most_varying = 0.1;
  const std::string remedy = "; tune with arguments that hold real data, or say in TunedOptions::outputs how "
                             "this parameter is compared ({.parameter = ";
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(reference_.kernel->recorded());
  for (const ComparedOutput& how : how_) {
    const ReferenceOutput& output = outputs_[how.block];
    if (output.values.empty() || how.ignored() || how.declared.compare ||
        !uses[static_cast<std::size_t>(how.parameter)].written)
      continue;
    const std::string number = std::to_string(how.parameter),
                      what = "parameter " + number + " (" + std::string(kiln::name(output.dtype)) + "): ";
    if (how.varying > most_varying && how.declared.relative == 0 && how.declared.absolute == 0)
      return what + (situation_.host_reference ? "the default" : situation_.right) +
             " computes something else in a second launch with the same inputs, for " +
             percent_text(how.varying) +
             " of the elements; if only their order differs, declare it in "
             "TunedOptions::outputs ({.parameter = " +
             number + ", .unordered = true})";
    const OutputComparison c = compare(output, output.values, poison_of(how.block, Pattern::first),
                                       allowance_for(reference_, how), Strictness::all, how.members)
                                   .compared;
    if (c.compared > 0) continue;
    const bool none_written = !output.unwritten.empty() && !is_any_written(output.unwritten, how.members);
    if (by_values) *by_values = !none_written;
    return what + "none of its " + std::to_string(how.elements) + " elements can be compared, because " +
           (none_written ? situation_.right + " writes none of them with these inputs"
                         : "all that " + situation_.right +
                               " writes are NaN or infinite with these inputs, or become so when the inputs "
                               "change by a rounding error") +
           remedy + number + ", .ignored = true})";
  }
  return {};
}

} // namespace kiln::tune
