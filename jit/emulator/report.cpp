// Reports as text and as JSON.
#include "emulator.h"

#include <algorithm>
#include <kiln/dsl/error.h>
#include <nlohmann/json.hpp>

namespace kiln::emulator {

const char* name_of(Fault fault) {
  switch (fault) {
  case Fault::OutOfBounds: return "out of bounds";
  case Fault::UseAfterFree: return "use after free";
  case Fault::Misaligned: return "misaligned";
  case Fault::ReadOnly: return "write to read-only memory";
  case Fault::Uninitialised: return "uninitialised read";
  case Fault::BarrierDivergence: return "barrier divergence";
  case Fault::Deadlock: return "deadlock";
  case Fault::Budget: return "out of budget";
  case Fault::StackOverflow: return "stack overflow";
  case Fault::Assertion: return "assertion";
  case Fault::Trap: return "trap";
  case Fault::IllegalOperand: return "illegal operand";
  case Fault::RaceShared: return "race in shared memory";
  case Fault::RaceGlobal: return "race in global memory";
  case Fault::MissingProxyFence: return "missing proxy fence";
  case Fault::ByteCount: return "wrong mbarrier byte count";
  case Fault::Unfinished: return "unfinished asynchronous operation";
  case Fault::LiveMbarrier: return "live mbarrier";
  case Fault::NonCoherent: return "non-coherent read";
  case Fault::InFlight: return "touched in flight";
  }
  return "?";
}

const char* name_of(InstructionClass c) {
  switch (c) {
#define X(name, text)                                                                                        \
  case InstructionClass::name: return text;
    KILN_INSTRUCTION_CLASSES(X)
#undef X
  }
  return "?";
}

Checks Checks::parse(std::string_view list) {
  Checks c;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (word == "all")
      c = all();
    else if (word == "races")
      c.races = true;
    else if (word == "init")
      c.uninitialised = true;
    else if (word == "none")
      c = {};
    else if (word != "bounds" && word != "barriers" && !word.empty())
      throw UserError("the check '" + std::string(word) +
                      "' is not known; races, init, bounds, barriers, all and none are");
  }
  return c;
}

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
