// Parses shapes that have names and shapes that list all sizes in order.
#include <kiln/autotune/space/shape.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <string_view>

namespace kiln::tune {

namespace {

// Splits at each separator. Empty parts are kept, since they show that a size was forgotten.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

[[noreturn]] void refuse(const std::string& shape, const std::string& what) {
  throw UserError(fmt::format("--shape {}: {}", shape, what));
}

std::int64_t size_from(const std::string& text, const std::string& name, const std::string& shape) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    refuse(shape, fmt::format("{} is \"{}\"; write a whole number from 0 to 2^63 - 1", name, text));
  return value;
}

} // namespace

bool has_names(const std::string& shape) { return shape.find('=') != std::string::npos; }

Sizes named_sizes(const std::string& shape) {
  Sizes sizes;
  if (shape.empty()) return sizes;
  for (const std::string& part : split(shape, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (equals == std::string::npos || name.empty())
      refuse(shape, fmt::format("\"{}\" is not NAME=SIZE; write M=512,N=512,K=512", part));
    if (std::any_of(sizes.begin(), sizes.end(), [&](const auto& size) { return size.first == name; }))
      refuse(shape, fmt::format("it has {} twice; write one of them", name));
    sizes.emplace_back(name, size_from(part.substr(equals + 1), name, shape));
  }
  return sizes;
}

Sizes sizes_in_order(const std::string& shape, const std::string& kernel, Sizes sizes) {
  const std::vector<std::string> parts = split(shape, 'x');
  if (parts.size() != sizes.size())
    refuse(shape, fmt::format("{} has {} sizes: {}; write all of them, separated by x, or NAME=SIZE,...",
                              kernel, sizes.size(), names_of(sizes)));
  for (std::size_t i = 0; i < parts.size(); ++i)
    sizes[i].second = size_from(parts[i], sizes[i].first, shape);
  return sizes;
}

std::string names_of(const Sizes& sizes) {
  std::string names;
  for (const auto& [name, value] : sizes)
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string shape_of(const Problem& problem) {
  std::string shape;
  for (const auto& [name, size] : problem.sizes)
    shape += (shape.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return shape;
}

} // namespace kiln::tune
