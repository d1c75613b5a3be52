// Finds which elements of the blocks of memory belong to which output.
#include <kiln/autotune/measure/compared_output.h>

#include <kiln/autotune/measure/sorted.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

namespace kiln::tune {

std::vector<bool> members_of(const Argument& a, const MemoryPlan::Place& place, const Block& block) {
  const std::int64_t size = size_of(block.dtype);
  const auto count = static_cast<std::size_t>(block.bytes / size);
  std::int64_t elements = a.bytes / size_of(a.dtype);
  if (a.kind == Argument::Kind::view)
    elements = std::accumulate(a.extents.begin(), a.extents.end(), std::int64_t{1}, std::multiplies<>());
  // A view whose elements fill its bytes may still have gaps if some coincide, which outputs' do not.
  if (place.begin == 0 && elements * size_of(a.dtype) == block.bytes) return {};
  std::vector<bool> members(count, false);
  for (const std::int64_t at : element_places(a))
    for (std::int64_t byte = place.data + at; byte < place.data + at + size_of(a.dtype); byte += size)
      members[static_cast<std::size_t>(byte / size)] = true;
  return members;
}

std::vector<bool> elements_equal_to(const std::vector<unsigned char>& poison,
                                    const std::vector<unsigned char>& values, DType dtype) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::vector<bool> equal(values.size() / size);
  for (std::size_t e = 0; e < equal.size(); ++e)
    equal[e] = std::memcmp(&values[e * size], &poison[e * size], size) == 0;
  return equal;
}

std::vector<ComparedOutput> compared_outputs(const Situation& s, const MemoryPlan& plan,
                                             const ir::Kernel& kernel) {
  std::vector<ComparedOutput> outputs;
  std::vector<int> output_of(s.arguments.size(), -1);
  for (std::size_t i = 0; i < s.arguments.size(); ++i) {
    const Argument& a = s.arguments[i];
    if (plan.places[i].block < 0 || a.readonly) continue;
    output_of[i] = static_cast<int>(outputs.size());
    ComparedOutput& output = outputs.emplace_back();
    output.parameter = static_cast<int>(i);
    output.block = static_cast<std::size_t>(plan.places[i].block);
    const Block& block = plan.blocks[output.block];
    output.members = members_of(a, plan.places[i], block);
    output.elements =
        output.members.empty()
            ? static_cast<std::size_t>(block.bytes / size_of(block.dtype))
            : static_cast<std::size_t>(std::count(output.members.begin(), output.members.end(), true));
  }
  for (const OutputCheck& check : s.outputs) {
    const auto parameter = static_cast<std::size_t>(check.parameter);
    if (check.parameter < 0 || parameter >= output_of.size() || output_of[parameter] < 0)
      throw UserError(
          "TunedOptions::outputs names parameter " + std::to_string(check.parameter) + " of kernel \"" +
          kernel.name +
          "\", which is no output: it must be a view or pointer to elements that are not const, and "
          "parameters count from 0");
    outputs[static_cast<std::size_t>(output_of[parameter])].declared = check;
  }
  return outputs;
}

std::vector<bool> elements_of_none(const std::vector<ComparedOutput>& outputs, std::size_t block,
                                   std::size_t elements) {
  std::vector<bool> none(elements, true);
  for (const ComparedOutput& output : outputs) {
    if (output.block != block) continue;
    if (output.members.empty()) return {};
    for (std::size_t i = 0; i < elements; ++i)
      none[i] = none[i] && !output.members[i];
  }
  return std::find(none.begin(), none.end(), true) == none.end() ? std::vector<bool>() : none;
}

} // namespace kiln::tune
