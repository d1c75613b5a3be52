// Computes keys and checksums with XXH3.
#include <kiln/jit/cache/hash.h>

#include <kiln/jit/base/version.h>
#include <kiln/jit/cache/source_digest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kiln::cache {
namespace {

constexpr XXH64_hash_t key_seed = 0x6b696c6e206b6579;      // "kiln key"
constexpr XXH64_hash_t checksum_seed = 0x6b696c6e2073756d; // "kiln sum"

Key to_key(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

} // namespace

std::string to_string(const Key& key) {
  std::string digits(32, '0');
  for (int i = 0; i < 32; ++i) {
    const std::uint64_t half = i < 16 ? key.high : key.low;
    digits[i] = "0123456789abcdef"[half >> (60 - 4 * (i % 16)) & 15];
  }
  return digits;
}

std::optional<Key> parse_key(std::string_view digits) {
  if (digits.size() != 32) return std::nullopt;
  Key key;
  for (int i = 0; i < 32; ++i) {
    const int digit = hex_digit(digits[i]);
    if (digit < 0) return std::nullopt;
    std::uint64_t& half = i < 16 ? key.high : key.low;
    half = half << 4 | static_cast<std::uint64_t>(digit);
  }
  return key;
}

struct KeyBuilder::State {
  XXH3_state_t xxh;
};

KeyBuilder::KeyBuilder() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->xxh);
  XXH3_128bits_reset_withSeed(&state_->xxh, key_seed);
}
KeyBuilder::~KeyBuilder() = default;
KeyBuilder::KeyBuilder(KeyBuilder&&) noexcept = default;
KeyBuilder& KeyBuilder::operator=(KeyBuilder&&) noexcept = default;

KeyBuilder KeyBuilder::versioned() {
  KeyBuilder builder;
  builder.add(version()).add(source_digest).add(code_generation_version).add(llvm_version());
  return builder;
}

KeyBuilder& KeyBuilder::add(std::string_view text) { return add_counted('s', text.data(), text.size()); }

KeyBuilder& KeyBuilder::add_bytes(std::span<const std::byte> bytes) {
  return add_counted('b', bytes.data(), bytes.size());
}

KeyBuilder& KeyBuilder::add_counted(char tag, const void* data, std::size_t size) {
  add_number(tag, size);
  if (size != 0) XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}

KeyBuilder& KeyBuilder::add_number(char tag, std::uint64_t bits) {
  char bytes[9] = {tag};
  for (int i = 0; i < 8; ++i)
    bytes[i + 1] = static_cast<char>(bits >> 8 * i);
  XXH3_128bits_update(&state_->xxh, bytes, sizeof bytes);
  return *this;
}

Key KeyBuilder::key() const { return to_key(XXH3_128bits_digest(&state_->xxh)); }

Key checksum(std::initializer_list<std::span<const char>> pieces) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset_withSeed(&state, checksum_seed);
  for (std::span<const char> piece : pieces)
    if (!piece.empty()) XXH3_128bits_update(&state, piece.data(), piece.size());
  return to_key(XXH3_128bits_digest(&state));
}

} // namespace kiln::cache
