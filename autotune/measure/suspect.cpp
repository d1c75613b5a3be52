// Ranks arguments by what their contents decide.
#include <kiln/autotune/measure/suspect.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/steering.h>

#include <algorithm>
#include <cstdio>
#include <optional>
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

bool is_given(const Argument& a) { return a.fill.kind == Fill::Kind::bytes; }

// Returns the argument that is most likely the cause, among those with given or with made-up contents.
std::optional<std::size_t> most_likely(const std::vector<Argument>& arguments,
                                       const std::vector<Steering>& steering, Failing how, bool given) {
  const auto rank = [&](std::size_t i) {
    const Steering& s = steering[i];
    const bool first = how == Failing::endless ? s.control : s.addresses;
    return std::tuple(first, s.any(), !is_float(arguments[i].dtype));
  };
  std::optional<std::size_t> most;
  for (std::size_t i = 0; i < arguments.size() && i < steering.size(); ++i) {
    const bool contents = arguments[i].kind != Argument::Kind::scalar;
    if (!contents || is_given(arguments[i]) != given || !steering[i].any()) continue;
    if (!most || rank(i) > rank(*most)) most = i;
  }
  return most;
}

std::string name_of(std::size_t index, const Argument& a, const ir::Kernel& kernel) {
  const char* given = kernel.body.args[index]->name;
  return "argument " + std::to_string(index + 1) + (given ? std::string(", ") + given : "") + " (" +
         std::string(kiln::name(a.dtype)) + ")";
}

std::string decides(const Steering& s) {
  return s.addresses && s.control ? "how often loops run and where the kernel reads or writes"
         : s.control              ? "how often a loop runs or which branch is taken"
                                  : "where the kernel reads or writes";
}

// The least and the largest of given integers: "whole numbers from 0 to 9"; empty for floats.
std::string range_of(const Argument& a) {
  if (!is_integer(a.dtype) || !a.fill.bytes || a.fill.bytes->size() < a.fill.first) return {};
  const Decoder decode(a.dtype);
  const auto size = static_cast<std::size_t>(size_of(a.dtype));
  const unsigned char* data = a.fill.bytes->data() + a.fill.first;
  const std::size_t count = (a.fill.bytes->size() - a.fill.first) / size;
  if (count == 0) return {};
  double least = decode(data), most = least;
  for (std::size_t i = 1; i < count; ++i) {
    const double value = decode(data + i * size);
    least = std::min(least, value), most = std::max(most, value);
  }
  char text[96];
  std::snprintf(text, sizeof text, " (whole numbers from %.0f to %.0f)", least, most);
  return text;
}

std::string pointers_of(const std::vector<Argument>& arguments, const ir::Kernel& kernel) {
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].kind == Argument::Kind::pointer)
      text += (text.empty() ? "" : ", ") + name_of(i, arguments[i], kernel) + " with " +
              std::to_string(arguments[i].bytes) + " bytes";
  return text;
}

} // namespace

std::string suspect_of(const std::vector<Argument>& arguments, const ir::Kernel& kernel, Failing how) {
  const std::vector<Steering> steering = steering_of(kernel);
  if (const auto i = most_likely(arguments, steering, how, false))
    return "the probable cause is " + name_of(*i, arguments[*i], kernel) + ", whose contents are made up (" +
           made_up(arguments[*i]) + ") and decide " + decides(steering[*i]) +
           "; give real contents: tune() copies those of its arguments, up to TuneOptions::contents_bytes, "
           "and `kiln tune --input NAME=FILE` reads them from a file";
  if (how == Failing::other) return {};
  std::string text;
  if (const auto i = most_likely(arguments, steering, how, true))
    text = "the probable cause is " + name_of(*i, arguments[*i], kernel) + ", whose contents were given" +
           range_of(arguments[*i]) + " and decide " + decides(steering[*i]) +
           (how == Failing::crash ? "; check that all of them are inside the arrays" : "");
  if (const std::string pointers = pointers_of(arguments, kernel); how == Failing::crash && !pointers.empty())
    text += (text.empty() ? "the probable cause is memory behind raw pointers: "
                          : "; also check raw pointers: ") +
            pointers + "; check that the kernel uses no more (TunedOptions::pointer_bytes)";
  return text;
}

} // namespace kiln::tune
