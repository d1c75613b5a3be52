// Defines Config, the sizes and options that a kernel is compiled with: `{BM = 128, BN = 64, num_warps = 8}`.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

KILN_API_BEGIN
namespace kiln {

namespace detail {
// The integer that a config binds a name to.
struct ConfigValue {
  std::int64_t value = 0;

  template <class N> constexpr ConfigValue(const N& number) {
    constexpr bool integer = std::is_integral_v<N> && !std::is_same_v<N, bool>;
    static_assert(integer, "a config takes integers as sizes and options: write {BM = 128, num_warps = 4}");
    if constexpr (integer) value = static_cast<std::int64_t>(number);
    if constexpr (integer && std::is_unsigned_v<N>)
      if (value < 0) value = INT64_MAX; // it does not fit i64; any number this large is rejected later
  }
};
} // namespace detail

// A name and the number that it is bound to.
struct Binding {
  const char* name; // interned (symbol.h)
  std::int64_t value;

  Binding() = default;
  Binding(std::string_view name, std::int64_t value);
  // Reports a config of numbers alone, {4, 4}.
  template <class N>
    requires std::is_arithmetic_v<N>
  Binding(N) {
    static_assert(!std::is_arithmetic_v<N>,
                  "a config gives sizes to dimensions by name: {BM = 128, BN = 64}");
  }
  // Makes a binding of a name that is already interned, which saves the look-up.
  static Binding of_interned(const char* name, std::int64_t value) {
    Binding binding;
    binding.name = name, binding.value = value;
    return binding;
  }

  bool operator==(const Binding&) const = default;
};

// A set of bindings, sorted by name. It never allocates, so a launch can take it by value. The constructor
// throws UserError if the list holds a name twice or more than `capacity` names.
class Config {
public:
  static constexpr int capacity = 24;

  Config() = default;
  Config(std::initializer_list<Binding> bindings,
         std::source_location here = std::source_location::current());

  // Binds a name to a number, or replaces its number. Throws UserError if the config already holds `capacity`
  // other names.
  void set(const Binding& binding);
  void set(std::string_view name, std::int64_t value) { set(Binding(name, value)); }
  // Returns the number that a name is bound to, or nothing.
  std::optional<std::int64_t> get(std::string_view name) const;
  const Binding* begin() const { return items_; }
  const Binding* end() const { return items_ + count_; }
  int size() const { return count_; }

  bool operator==(const Config& other) const;
  std::string to_string() const; // "BM=128,BN=256"
  // The inverse of to_string. Throws a UserError that names the part of the text that cannot be read.
  static Config parse(std::string_view text);

private:
  Binding items_[capacity];
  int count_ = 0;
};

// An option, which the config of any kernel may set: `num_warps = 8`. A device ignores the options that it
// does not have. If max_registers is not set, Kiln does not limit the number of registers.
struct Option {
  const char* name;
  Binding operator=(detail::ConfigValue value) const;
};
inline constexpr Option num_warps{"num_warps"};         // warps per GPU block: 1, 2, 4 ... 32; default 4
inline constexpr Option num_stages{"num_stages"};       // no device uses this option yet
inline constexpr Option num_ctas{"num_ctas"};           // no device uses this option yet
inline constexpr Option max_registers{"max_registers"}; // registers per GPU thread: 24 to 255
inline constexpr std::string_view option_names[] = {"num_warps", "num_stages", "num_ctas", "max_registers"};
// Returns whether `name` is one of option_names.
bool is_option(std::string_view name);

} // namespace kiln
KILN_API_END
