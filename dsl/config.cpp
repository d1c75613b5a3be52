// Implements Config: binding names, printing and parsing.
#include <kiln/dsl/config.h>

#include <kiln/dsl/error.h>
#include <kiln/dsl/symbol.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace kiln {

namespace {
std::string named_twice(const char* name, std::int64_t first, std::int64_t second) {
  return "a config names " + std::string(name) + " twice, as " + std::to_string(first) + " and " +
         std::to_string(second) + "; remove one of them";
}
} // namespace

Binding::Binding(std::string_view name, std::int64_t value) : name(intern(name)), value(value) {}

Config::Config(std::initializer_list<Binding> bindings, std::source_location here) {
  for (const Binding& b : bindings) {
    for (const Binding& earlier : *this)
      if (earlier.name == b.name) throw UserError(here, named_twice(b.name, earlier.value, b.value));
    set(b);
  }
}

void Config::set(const Binding& binding) {
  const auto [name, value] = binding;
  int at = 0;
  while (at < count_ && items_[at].name != name && std::strcmp(items_[at].name, name) < 0)
    ++at;
  if (at < count_ && items_[at].name == name) {
    items_[at].value = value;
    return;
  }
  if (count_ == capacity)
    throw UserError("a config holds at most " + std::to_string(capacity) + " names and " + name +
                    " is one too many; remove the names the kernel does not use");
  std::move_backward(items_ + at, items_ + count_, items_ + count_ + 1);
  items_[at] = binding;
  ++count_;
}

std::optional<std::int64_t> Config::get(std::string_view name) const {
  for (const Binding& b : *this)
    if (name == b.name) return b.value;
  return std::nullopt;
}

bool Config::operator==(const Config& other) const {
  return count_ == other.count_ && std::equal(begin(), end(), other.begin());
}

std::string Config::to_string() const {
  std::string text;
  for (const Binding& b : *this) {
    if (!text.empty()) text += ',';
    text += std::string(b.name) + "=" + std::to_string(b.value);
  }
  return text;
}

Config Config::parse(std::string_view text) {
  Config config;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    std::size_t equals = item.find('=');
    std::int64_t value = 0;
    const char* last = item.data() + item.size();
    const bool named = equals != 0 && equals != std::string_view::npos && equals + 1 != item.size();
    const auto read =
        named ? std::from_chars(item.data() + equals + 1, last, value) : std::from_chars_result{};
    if (named && read.ec == std::errc::result_out_of_range)
      throw UserError("config: the number of \"" + std::string(item) + "\" does not fit 64 bits");
    if (!named || read.ec != std::errc{} || read.ptr != last)
      throw UserError("config: cannot read \"" + std::string(item) +
                      "\"; write it as NAME=NUMBER, as in BM=128,BN=64");
    const Binding binding(item.substr(0, equals), value);
    if (auto bound = config.get(binding.name))
      throw UserError("config: " + named_twice(binding.name, *bound, value));
    config.set(binding);
  }
  return config;
}

Binding Option::operator=(detail::ConfigValue v) const { return {name, v.value}; }

bool is_option(std::string_view name) {
  return std::find(std::begin(option_names), std::end(option_names), name) != std::end(option_names);
}

} // namespace kiln
