// Tests keys of the kernel cache: when they are equal, and how they print and parse.
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/cache/hash.h>

#include <map>
#include <random>
#include <unordered_set>

using kiln::cache::Key;
using kiln::cache::KeyBuilder;

namespace {
KeyBuilder builder() { return KeyBuilder(); }
} // namespace

TEST_CASE("a key prints as 32 hex digits and parses back") {
  CHECK(to_string(Key{0x0123456789abcdef, 0xfedcba9876543210}) == "0123456789abcdeffedcba9876543210");
  CHECK(to_string(Key{0, 1}) == "00000000000000000000000000000001");
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const Key key{random() >> random() % 64, random() >> random() % 64};
    CAPTURE(to_string(key));
    CHECK(kiln::cache::parse_key(to_string(key)) == key);
  }
}

TEST_CASE("text that is not exactly a key does not parse") {
  const std::string good(32, 'a');
  REQUIRE(kiln::cache::parse_key(good));
  CHECK_FALSE(kiln::cache::parse_key(""));
  CHECK_FALSE(kiln::cache::parse_key(good.substr(1)));
  CHECK_FALSE(kiln::cache::parse_key(good + "a"));
  for (char c : {'g', 'A', ' ', '-', '/', ':', '`', '\0'}) {
    std::string text = good;
    text[17] = c;
    CHECK_FALSE(kiln::cache::parse_key(text));
  }
}

TEST_CASE("equal parts give equal keys, and more parts can be added after a key was read") {
  KeyBuilder a, b;
  a.add("matmul").add(128).add(0.5);
  b.add("matmul").add(128).add(0.5);
  CHECK(a.key() == b.key());
  CHECK(a.key() == a.key());
  a.add("more");
  CHECK(a.key() != b.key());
  b.add("more");
  CHECK(a.key() == b.key());
}

TEST_CASE("differently split, typed or ordered parts give different keys") {
  const std::byte bytes[] = {std::byte{'a'}, std::byte{'b'}};
  std::map<std::string, Key> keys = {
      {"nothing", builder().key()},
      {"empty text", builder().add("").key()},
      {"two empty texts", builder().add("").add("").key()},
      {"ab", builder().add("ab").key()},
      {"ab as bytes", builder().add_bytes(bytes).key()},
      {"ab, nothing", builder().add("ab").add("").key()},
      {"nothing, ab", builder().add("").add("ab").key()},
      {"a, b", builder().add("a").add("b").key()},
      {"b, a", builder().add("b").add("a").key()},
      {"0", builder().add(0).key()},
      {"1", builder().add(1).key()},
      {"-1", builder().add(-1).key()},
      {"all bits set", builder().add(~std::uint64_t{0}).key()},
      {"0.0", builder().add(0.0).key()},
      {"-0.0", builder().add(-0.0).key()},
      {"1.0", builder().add(1.0).key()},
      {"1 as text", builder().add("1").key()},
      {"1, 2", builder().add(1).add(2).key()},
      {"2, 1", builder().add(2).add(1).key()},
      {"versions", KeyBuilder::versioned().key()},
  };
  std::unordered_set<Key> distinct;
  for (const auto& [name, key] : keys) {
    CAPTURE(name);
    CHECK(distinct.insert(key).second);
  }
}

TEST_CASE("equal numbers hash alike whatever their type") {
  enum class Kind : unsigned char { fifth = 5 };
  const Key five = builder().add(5).key();
  CHECK(builder().add(5u).key() == five);
  CHECK(builder().add(std::uint8_t{5}).key() == five);
  CHECK(builder().add(std::int64_t{5}).key() == five);
  CHECK(builder().add(Kind::fifth).key() == five);
  CHECK(builder().add(std::int8_t{-5}).key() == builder().add(std::int64_t{-5}).key());
}

TEST_CASE("a checksum does not depend on how its bytes are split, and is never the key of the same bytes") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<char> bytes(1000);
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  const std::span<const char> all(bytes);
  const Key whole = kiln::cache::checksum({all});
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 1 + random() % 50)
    CHECK(kiln::cache::checksum({all.first(cut), all.subspan(cut)}) == whole);
  CHECK(kiln::cache::checksum({}) != builder().key());
  CHECK(kiln::cache::checksum({all}) != builder().add(std::string_view(bytes.data(), bytes.size())).key());
}
