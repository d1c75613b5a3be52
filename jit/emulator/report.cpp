// Prints reports as text and as JSON.
#include "emulator.h"

#include <nlohmann/json.hpp>

namespace kiln::emulator {

std::string Report::text() const {
  std::string text;
  for (const Finding& f : findings) {
    text += f.message;
    if (f.times > 1) text += ", and " + std::to_string(f.times - 1) + " times more";
    text += '\n';
  }
  if (left_out) text += std::to_string(left_out) + " findings at other places were left out\n";
  if (!finished) text += "the kernel did not run to its end\n";
  return text;
}

std::string Report::json() const {
  nlohmann::json all;
  all["kernel"] = kernel;
  all["finished"] = finished;
  all["left_out"] = left_out;
  all["printed"] = printed;
  all["warp_instructions"] = warp_instructions;
  all["lane_instructions"] = lane_instructions;
  for (int c = 0; c < instruction_classes; ++c)
    if (lanes_by_class[static_cast<std::size_t>(c)])
      all["instructions"][name_of(static_cast<InstructionClass>(c))] =
          lanes_by_class[static_cast<std::size_t>(c)];
  all["findings"] = nlohmann::json::array();
  for (const Finding& f : findings) {
    nlohmann::json one = {{"fault", name_of(f.fault)}, {"message", f.message}, {"kernel", f.kernel},
                          {"line", f.ptx_line},        {"source", f.source},   {"block", f.block},
                          {"thread", f.thread},        {"times", f.times}};
    if (f.other)
      one["other"] = {{"what", f.other->what},
                      {"line", f.other->ptx_line},
                      {"source", f.other->source},
                      {"block", f.other->block},
                      {"thread", f.other->thread}};
    all["findings"].push_back(std::move(one));
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace kiln::emulator
