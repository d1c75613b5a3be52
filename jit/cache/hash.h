// Defines the 128-bit key of a compiled kernel, and a class that computes it from parts.
//
//   cache::Key key = cache::KeyBuilder::versioned().add(canonical_ir).add(config_text).add(target).key();
//
// Parts have tags and lengths, so add("ab").add("c") and add("a").add("bc") give different keys. Equal
// numbers give equal keys even if their C++ types differ. The hash is XXH3 with 128 bits. Accidental
// collisions are practically impossible; deliberate ones are possible, so the cache refuses folders that
// others can write to.
#pragma once

#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace kiln::cache {

struct Key {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Key&) const = default;
};

std::string to_string(const Key& key);                 // 32 lower-case hex digits
std::optional<Key> parse_key(std::string_view digits); // the inverse; nothing for any other text

// Hashes parts in the order in which they are added. `key` may be called at any time; more parts can be added
// after it. Not thread-safe.
class KeyBuilder {
public:
  KeyBuilder();
  ~KeyBuilder();
  KeyBuilder(KeyBuilder&&) noexcept;
  KeyBuilder& operator=(KeyBuilder&&) noexcept;

  // Begins with the versions of Kiln, LLVM and Kiln's code generation (with the digest of its sources), as
  // the keys of all compiled kernels must.
  static KeyBuilder versioned();

  KeyBuilder& add(std::string_view text);
  KeyBuilder& add_bytes(std::span<const std::byte> bytes);
  template <std::integral T> KeyBuilder& add(T value) {
    if constexpr (std::signed_integral<T>)
      return add_number(value < 0 ? 'n' : 'p', static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    else
      return add_number('p', static_cast<std::uint64_t>(value));
  }
  template <typename T>
    requires std::is_enum_v<T>
  KeyBuilder& add(T value) {
    return add(static_cast<std::underlying_type_t<T>>(value));
  }
  KeyBuilder& add(double value) { return add_number('d', std::bit_cast<std::uint64_t>(value)); }

  Key key() const;

private:
  struct State;
  KeyBuilder& add_number(char tag, std::uint64_t bits);
  KeyBuilder& add_counted(char tag, const void* data, std::size_t size);
  std::unique_ptr<State> state_;
};

// The checksum of several pieces as of their concatenation. Its seed differs from that of keys, so an entry's
// key and checksum differ even if both cover the same bytes.
Key checksum(std::initializer_list<std::span<const char>> pieces);

} // namespace kiln::cache

template <> struct std::hash<kiln::cache::Key> {
  std::size_t operator()(const kiln::cache::Key& key) const noexcept { return key.low; }
};
