// Tests overlap of strided arrays against sets of their addresses.
#include "test_seed.h"

#include <kiln/jit/runtime/assign/overlap.h>

#include <catch2/catch.hpp>

#include <random>
#include <set>
#include <vector>

using namespace kiln;

namespace {

struct Drawn {
  std::vector<std::int64_t> extents, strides;
  std::int64_t first = 0;

  std::multiset<std::int64_t> addresses() const {
    std::multiset<std::int64_t> all{first};
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      std::multiset<std::int64_t> next;
      for (std::int64_t i = 0; i < extents[axis]; ++i)
        for (std::int64_t a : all)
          next.insert(a + i * strides[axis]);
      all = std::move(next);
    }
    return all;
  }
};

} // namespace

TEST_CASE("overlap and repetition of arrays are found exactly") {
  std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto integer = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int overlaps = 0, repeats = 0;
  for (int round = 0; round < 20000; ++round) {
    Drawn drawn[2];
    std::vector<float> memory(1); // only its address matters
    for (Drawn& d : drawn) {
      d.first = integer(-40, 40);
      for (std::int64_t rank = integer(0, 3); rank > 0; --rank) {
        d.extents.push_back(integer(round % 10 == 0 ? 0 : 1, 5));
        d.strides.push_back(round % 2 ? integer(-20, 20) : 3 * integer(-8, 8));
      }
    }
    auto array = [&](const Drawn& d) {
      detail::StridedArray a{TensorView<float, 1>(memory)};
      a.data = reinterpret_cast<const void*>(reinterpret_cast<std::intptr_t>(memory.data()) + 4 * d.first);
      a.rank = static_cast<int>(d.extents.size());
      a.extents = d.extents.data(), a.strides = d.strides.data();
      return a;
    };
    auto a = drawn[0].addresses(), b = drawn[1].addresses();
    bool meet = false;
    for (std::int64_t x : a)
      meet |= b.count(x) > 0;
    bool repeat = std::set<std::int64_t>(a.begin(), a.end()).size() != a.size();
    REQUIRE(detail::arrays_overlap(array(drawn[0]), array(drawn[1])) == meet);
    REQUIRE(detail::array_repeats(array(drawn[0])) == repeat);
    overlaps += meet, repeats += repeat;
  }
  CHECK(overlaps > 1000);
  CHECK(overlaps < 19000);
  CHECK(repeats > 1000);
}
