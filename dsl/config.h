// The sizes and options that a kernel is compiled with: `{BM = 128, BN = 256, num_warps = 8}`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

namespace kiln {

namespace detail {
// What a config binds a name to.
struct ConfigValue {
  std::int64_t value = 0;

  template <class N> constexpr ConfigValue(const N& number) {
    constexpr bool integer = std::is_integral_v<N> && !std::is_same_v<N, bool>;
    static_assert(integer, "a config takes integers as sizes and options: write {BM = 128, num_warps = 4}");
    if constexpr (integer) value = static_cast<std::int64_t>(number);
    if constexpr (integer && std::is_unsigned_v<N>)
      if (value < 0) value = INT64_MAX; // as good as any: no tile is that large
  }
};
} // namespace detail

// One name and its number.
struct Binding {
  const char* name; // interned (symbol.h)
  std::int64_t value;

  Binding() = default;
  Binding(std::string_view name, std::int64_t value);
  // Without looking for the name.
  static Binding of_interned(const char* name, std::int64_t value) {
    Binding binding;
    binding.name = name, binding.value = value;
    return binding;
  }

  bool operator==(const Binding&) const = default;
};

// A small sorted set of bindings that never allocates, so that a launch can carry one by value.
// Setting a name again replaces its value; naming one twice in the list is a UserError, as are more than
// `capacity` names.
class Config {
public:
  static constexpr int capacity = 24;

  Config() = default;
  Config(std::initializer_list<Binding> bindings,
         std::source_location here = std::source_location::current());

  void set(const Binding& binding);
  void set(std::string_view name, std::int64_t value) { set(Binding(name, value)); }
  std::optional<std::int64_t> get(std::string_view name) const;
  const Binding* begin() const { return items_; }
  const Binding* end() const { return items_ + count_; }
  int size() const { return count_; }

  bool operator==(const Config& other) const;
  std::string to_string() const;              // "BM=128,BN=256"
  static Config parse(std::string_view text); // the inverse; UserError names what does not parse

private:
  Binding items_[capacity];
  int count_ = 0;
};

// The options that every kernel accepts; a device ignores those it lacks. Used as `num_warps = 8`.
struct Option {
  const char* name;
  Binding operator=(detail::ConfigValue value) const;
};
inline constexpr Option num_warps{"num_warps"};         // of a GPU's block: 1, 2, 4, ..., 32; default 4
inline constexpr Option num_stages{"num_stages"};       // no device has it yet
inline constexpr Option num_ctas{"num_ctas"};           // no device has it yet
inline constexpr Option max_registers{"max_registers"}; // of a GPU's thread: 24 to 255; default: no limit
inline constexpr std::string_view option_names[] = {"num_warps", "num_stages", "num_ctas", "max_registers"};
bool is_option(std::string_view name);

} // namespace kiln
