// Parses sizes, and computes the argument words of a launch with them.
#include <kiln/jit/cli/support/example.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/jit/cli/support/registry.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <sstream>

namespace kiln::cli {

namespace {

using ir::Value;

// Splits "a=512x64" into its two parts.
struct Assignment {
  std::string name, value;
};

Assignment split_assignment(const std::string& text) {
  auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw UserError("--size " + text + ": expected NAME=SIZE, as in M=1000, or x=512x64 for a parameter");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// Splits "M=1000,x=512,64" into "M=1000" and "x=512,64". A comma ends an assignment only if another one
// follows.
std::vector<std::string> split_assignments(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    std::size_t begin = 0;
    for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', comma + 1)) {
      std::size_t equals = text.find('=', comma);
      if (equals == std::string::npos || equals > text.find(',', comma + 1)) continue;
      parts.push_back(text.substr(begin, comma - begin));
      begin = comma + 1;
    }
    parts.push_back(text.substr(begin));
  }
  return parts;
}

// Splits "512x64" or "M,64" into extents. The letter x separates only after a digit, because names may
// contain it.
std::vector<std::string> split_extents(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    std::string& part = parts.back();
    bool number = !part.empty() && std::isdigit(static_cast<unsigned char>(part[0]));
    if (c == ',' || (c == 'x' && number))
      parts.emplace_back();
    else
      part += c;
  }
  return parts;
}

using Names = std::map<std::string, std::int64_t>;

std::int64_t extent_of(const std::string& what, const std::string& text, const Names& names) {
  if (auto at = names.find(text); at != names.end()) return at->second;
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw UserError(what + ": \"" + text + "\" is " +
                    (names.empty() ? "not a number of at least 0"
                                   : "neither a number of at least 0 nor a size that the kernel has"));
  return value;
}

// The default names of all parameters, with the sizes that are known without those of the user.
std::vector<ExampleParameter> named_parameters(const ir::Kernel& kernel, const RegisteredKernel* registered,
                                               std::vector<std::string>& values) {
  std::vector<ExampleParameter> parameters;
  for (const auto& arg : kernel.body.args)
    parameters.push_back({arg->name ? arg->name : "arg" + std::to_string(arg->index), {}, {}});
  values.assign(parameters.size(), "");
  if (!registered) return parameters;
  std::istringstream words(registered->parameters);
  std::size_t i = 0;
  for (std::string word; words >> word; ++i) {
    internal_check(i < parameters.size(), [&] {
      return "kernel " + kernel.name + " is registered with more parameters than it has";
    });
    auto equals = word.find('=');
    parameters[i].name = word.substr(0, equals);
    if (equals != std::string::npos) values[i] = word.substr(equals + 1);
  }
  return parameters;
}

Names named_sizes(const RegisteredKernel* registered) {
  Names names;
  if (!registered) return names;
  for (const std::string& part : split_extents(registered->sizes))
    if (!part.empty()) {
      auto [name, value] = split_assignment(part);
      names[name] = extent_of("size " + name, value, {});
    }
  return names;
}

ir::Cell scalar_cell(const ExampleParameter& parameter, DType t) {
  const std::string& text = parameter.value;
  char* end = nullptr;
  ir::Cell cell = is_float(t) ? ir::cell_of_float(t, std::strtold(text.c_str(), &end))
                              : ir::cell_of_integer(t, std::strtoll(text.c_str(), &end, 0));
  if (end == text.c_str() || *end)
    throw UserError("value of " + parameter.name + ": \"" + text + "\" is not a number");
  return cell;
}

// The strides of a contiguous tensor. UserError if its size exceeds the address space.
std::vector<std::int64_t> strides_of(const ExampleParameter& parameter, int element_bytes) {
  std::vector<std::int64_t> strides(parameter.extents.size());
  std::int64_t stride = 1, bytes = 0;
  bool overflow = false;
  for (std::size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    overflow |= __builtin_mul_overflow(stride, std::max<std::int64_t>(1, parameter.extents[axis]), &stride);
  }
  if (overflow || __builtin_mul_overflow(stride, element_bytes, &bytes))
    throw UserError("size of " + parameter.name +
                    ": the tensor has more than 2^63 bytes; choose a smaller one");
  return strides;
}

void fill_view(Example& example, const Value& arg, std::size_t first) {
  const ExampleParameter& parameter = example.parameters[static_cast<std::size_t>(arg.index)];
  auto& words = example.arguments.words;
  if (parameter.extents.empty()) {
    example.layouts.push_back(LayoutClass::Unit);
    return;
  }
  auto rank = static_cast<std::size_t>(arg.type.view_rank);
  if (parameter.extents.size() != rank)
    throw UserError("size of " + parameter.name + ": " + std::to_string(parameter.extents.size()) +
                    " extents for a view of rank " + std::to_string(rank));
  auto strides = strides_of(parameter, arg.type.element_bytes());
  bool aligned = true;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    words[first + 1 + axis] = static_cast<std::uint64_t>(parameter.extents[axis]);
    words[first + 1 + rank + axis] = static_cast<std::uint64_t>(strides[axis]);
    aligned &= axis + 1 == rank || strides[axis] * arg.type.element_bytes() % 16 == 0;
  }
  example.layouts.push_back(aligned ? LayoutClass::Aligned : LayoutClass::Unit);
}

} // namespace

std::vector<std::uint64_t> Example::words() const {
  std::vector<std::uint64_t> words;
  for (const auto& word : arguments.words)
    words.push_back(word.value());
  return words;
}

Example make_example(const ir::Kernel& kernel, const RegisteredKernel* registered,
                     const std::vector<std::string>& sizes) {
  Example example;
  std::vector<std::string> values;
  example.parameters = named_parameters(kernel, registered, values);
  Names names = named_sizes(registered);
  for (const std::string& size : split_assignments(sizes)) {
    auto [name, value] = split_assignment(size);
    auto same = [&name = name](const ExampleParameter& p) { return p.name == name; };
    auto at = std::find_if(example.parameters.begin(), example.parameters.end(), same);
    if (at != example.parameters.end()) {
      values[static_cast<std::size_t>(at - example.parameters.begin())] = value;
    } else if (names.count(name)) {
      names[name] = extent_of("size " + name, value, {});
    } else {
      std::string known;
      for (const auto& [n, v] : names)
        known += (known.empty() ? "" : ", ") + n;
      for (const ExampleParameter& p : example.parameters)
        known += (known.empty() ? "" : ", ") + p.name;
      throw UserError("--size " + size + ": kernel " + kernel.name + " has no size or parameter " + name +
                      "; it has " + known);
    }
  }
  auto layout = ir::ArgumentLayout::of(kernel);
  auto& words = example.arguments.words;
  words.resize(static_cast<std::size_t>(layout.words));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& arg = *kernel.body.args[i];
    ExampleParameter& parameter = example.parameters[i];
    auto first = static_cast<std::size_t>(layout.first_word[i]);
    if (arg.type.is_view() || arg.type.pointer) {
      for (const std::string& part : split_extents(values[i]))
        if (!values[i].empty())
          parameter.extents.push_back(extent_of("size of " + parameter.name, part, names));
      if (arg.type.is_view()) fill_view(example, arg, first);
    } else if (!values[i].empty()) {
      auto named = names.find(values[i]);
      parameter.value = named == names.end() ? values[i] : std::to_string(named->second);
      words[first] = scalar_cell(parameter, arg.type.dtype);
    }
    // Any aligned address will do, because it is not accessed.
    if (arg.type.is_view() || arg.type.pointer) words[first] = std::uint64_t{1} << 30;
  }
  example.complete =
      std::all_of(words.begin(), words.end(), [](const auto& word) { return word.has_value(); });
  return example;
}

std::vector<std::int64_t> parse_extents(const std::string& what, const std::string& text) {
  std::vector<std::int64_t> extents;
  for (const std::string& part : split_extents(text))
    extents.push_back(extent_of(what, part, {}));
  return extents;
}

const char* layout_text(LayoutClass layout) {
  switch (layout) {
  case LayoutClass::Any: return "any";
  case LayoutClass::Unit: return "unit";
  case LayoutClass::Aligned: break;
  }
  return "aligned";
}

std::vector<LayoutClass> parse_layouts(const std::string& text) {
  std::vector<LayoutClass> layouts;
  if (text.empty()) return layouts;
  for (const std::string& word : split_extents(text)) {
    bool found = false;
    for (LayoutClass layout : {LayoutClass::Any, LayoutClass::Unit, LayoutClass::Aligned})
      if (word == layout_text(layout)) layouts.push_back(layout), found = true;
    if (!found) throw UserError("--layouts: expected any, unit or aligned, found \"" + word + "\"");
  }
  return layouts;
}

} // namespace kiln::cli
