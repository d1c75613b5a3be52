// Ranks arguments with made-up contents by what they decide.
#include <kiln/autotune/measure/suspect.h>

#include <kiln/autotune/measure/steering.h>

#include <string>
#include <tuple>

namespace kiln::tune {

namespace {

std::string made_up(const Argument& a) {
  if (a.fill.kind == Fill::Kind::range)
    return "whole numbers from " + std::to_string(a.fill.least) + " to " + std::to_string(a.fill.most);
  return is_float(a.dtype)        ? "normally distributed numbers"
         : a.dtype == DType::Bool ? "true and false"
                                  : "whole numbers from 0 to 7";
}

} // namespace

std::string suspect_of(const std::vector<Argument>& arguments, const ir::Kernel& kernel, Failing how) {
  const std::vector<Steering> steering = steering_of(kernel);
  const auto rank = [&](std::size_t i) {
    const Steering& s = steering[i];
    const bool first = how == Failing::endless ? s.control : s.addresses;
    return std::tuple(first, s.any(), !is_float(arguments[i].dtype));
  };
  std::size_t most = arguments.size();
  for (std::size_t i = 0; i < arguments.size() && i < steering.size(); ++i) {
    const bool contents = arguments[i].kind != Argument::Kind::scalar;
    if (!contents || arguments[i].fill.kind == Fill::Kind::bytes || !steering[i].any()) continue;
    if (most == arguments.size() || rank(i) > rank(most)) most = i;
  }
  if (most == arguments.size()) return {};
  const Argument& a = arguments[most];
  const char* given = kernel.body.args[most]->name;
  const bool both = steering[most].addresses && steering[most].control;
  return "the probable cause is argument " + std::to_string(most + 1) +
         (given ? std::string(", ") + given : "") + " (" + std::string(kiln::name(a.dtype)) +
         "), whose contents are made up (" + made_up(a) + ") and decide " +
         (both                     ? "how often loops run and where the kernel reads or writes"
          : steering[most].control ? "how often a loop runs or which branch is taken"
                                   : "where the kernel reads or writes") +
         "; give real contents: tune() copies those of its arguments, up to TuneOptions::contents_bytes, and "
         "`kiln tune --input NAME=FILE` reads them from a file";
}

} // namespace kiln::tune
