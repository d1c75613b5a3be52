// Tests views: construction, derived views, and the error for each mistake.
#include <catch2/catch.hpp>
#include <kiln/dsl/dtype.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/tensor.h>

#include <array>
#include <numeric>
#include <span>
#include <vector>

using namespace kiln;
using Catch::Contains;

namespace {
template <class View> std::vector<std::int64_t> extents(const View& v) {
  return {v.extents(), v.extents() + View::rank()};
}
template <class View> std::vector<std::int64_t> strides(const View& v) {
  return {v.strides(), v.strides() + View::rank()};
}
using Ints = std::vector<std::int64_t>;

std::vector<float> iota(std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}
} // namespace

TEST_CASE("type and rank are deduced") {
  int m = 3;
  std::size_t n = 4;
  auto x = iota(12);
  const auto cx = x;
  float array[5] = {};
  std::array<double, 6> a6{};
  TensorView a(x.data(), {m, n});
  static_assert(std::is_same_v<decltype(a), TensorView<float, 2>>);
  static_assert(std::is_same_v<decltype(TensorView(x, {m, n})), TensorView<float, 2>>);
  static_assert(std::is_same_v<decltype(TensorView(cx, {m, n})), TensorView<const float, 2>>);
  static_assert(std::is_same_v<decltype(TensorView(x)), TensorView<float, 1>>);
  static_assert(std::is_same_v<decltype(TensorView(std::span(x))), TensorView<float, 1>>);
  static_assert(std::is_same_v<decltype(TensorView(array)), TensorView<float, 1>>);
  static_assert(std::is_same_v<decltype(TensorView(a6, {2, 3})), TensorView<double, 2>>);
  static_assert(std::is_same_v<decltype(TensorView(a)), TensorView<float, 2>>);
  CHECK(extents(a) == Ints{3, 4});
  CHECK(strides(a) == Ints{4, 1});
  CHECK(extents(TensorView(array)) == Ints{5});
  CHECK(strides(TensorView(x.data(), {m, n}, {1, m})) == Ints{1, 3});
}

TEST_CASE("a view converts to a view of const elements, and to no other type") {
  auto x = iota(6);
  TensorView a(x, {2, 3});
  TensorView<const float, 2> read_only = a;
  CHECK(read_only.data() == x.data());
  CHECK(strides(read_only) == Ints{3, 1});
  static_assert(!std::is_convertible_v<TensorView<const float, 2>, TensorView<float, 2>>);
  static_assert(!std::is_convertible_v<TensorView<float, 2>, TensorView<double, 2>>);
  static_assert(!std::is_convertible_v<TensorView<float, 2>, TensorView<float, 1>>);
}

TEST_CASE("derived views refer to the right elements") {
  auto x = iota(24);
  TensorView a(x, {2, 3, 4});
  CHECK(a(1, 2, 3) == 23);
  CHECK(a.transpose()(1, 3, 2) == 23);
  CHECK(extents(a.transpose()) == Ints{2, 4, 3});
  CHECK(a.permute({2, 0, 1})(3, 1, 2) == 23);
  CHECK(extents(a.permute({2, 0, 1})) == Ints{4, 2, 3});
  CHECK(a.slice(2, 1, 3)(1, 2, 1) == a(1, 2, 2));
  CHECK(extents(a.slice(2, 1, 3)) == Ints{2, 3, 2});
  CHECK(a.select(1, 2)(1, 3) == 23);
  CHECK(extents(a.select(1, 2)) == Ints{2, 4});
  CHECK(TensorView(x).select(0, 7)() == 7);
  CHECK(a.reshape({6, 4})(5, 3) == 23);
  CHECK(a.reshape({24}).slice(0, 3, 3).empty());
  auto row = a.select(0, 1).select(0, 0);
  auto wide = row.broadcast_to({5, 4});
  CHECK(strides(wide) == Ints{0, 1});
  CHECK(wide(4, 2) == row(2));
  CHECK(TensorView(x.data(), {3, 1}).broadcast_to({2, 3, 7})(1, 2, 6) == 2);
  CHECK(a.rows() == 3);
  CHECK(a.cols() == 4);
  CHECK(a.size() == 24);
}

TEST_CASE("contiguity ignores dimensions of extent one") {
  auto x = iota(24);
  TensorView a(x, {4, 6});
  CHECK(a.is_contiguous());
  CHECK_FALSE(a.transpose().is_contiguous());
  CHECK_FALSE(a.slice(1, 0, 3).is_contiguous());
  CHECK(a.slice(0, 1, 3).is_contiguous());
  CHECK(TensorView(x.data(), {1, 6}, {99, 1}).is_contiguous());
  CHECK(a.slice(0, 2, 2).is_contiguous());
}

TEST_CASE("negative strides go backwards") {
  auto x = iota(6);
  TensorView reversed(x.data() + 5, {6}, {-1});
  CHECK(reversed(0) == 5);
  CHECK(reversed(5) == 0);
}

TEST_CASE("an empty view may have a null pointer") {
  CHECK(TensorView(static_cast<float*>(nullptr), {0, 5}).empty());
  CHECK(TensorView(static_cast<float*>(nullptr), {INT64_MAX, 0, INT64_MAX}).empty());
  CHECK(TensorView<float, 3>().empty());
  CHECK(TensorView(std::vector<float>()).empty());
}

TEST_CASE("a mistake names the argument and the caller's line") {
  auto x = iota(24);
  float* null = nullptr;
  std::string here = std::string(__FILE__) + ":";
  auto call = [&] { TensorView(x.data(), {2, -3}); };
  std::string exactly_here = here + std::to_string(__LINE__ - 1);
  CHECK_THROWS_WITH(call(), exactly_here + ": TensorView's argument 'extents': extent 1 is -3; "
                                           "extents must not be negative");
  CHECK_THROWS_WITH(TensorView(null, {2, 3}),
                    Contains("argument 'data' is null with extents {2, 3}") && Contains(here));
  CHECK_THROWS_WITH(TensorView(reinterpret_cast<float*>(reinterpret_cast<char*>(x.data()) + 2), {2}),
                    Contains("argument 'data' is not a multiple of 4 bytes"));
  CHECK_THROWS_WITH(TensorView(x.data(), {std::int64_t{1} << 32, std::int64_t{1} << 31}),
                    Contains("{4294967296, 2147483648} elements of 4 bytes overflow 64 bits"));
  CHECK_THROWS_WITH(TensorView(x.data(), {~std::size_t{0}}), Contains("extent 0 is -1"));
  CHECK_THROWS_WITH(TensorView(x.data(), {2, 3}, {INT64_MAX, 1}),
                    Contains("argument 'strides'") && Contains("reach past 64-bit offsets"));
  CHECK_THROWS_WITH(TensorView(x.data(), {2}, {INT64_MIN}), Contains("argument 'strides'"));
  CHECK_THROWS_WITH(TensorView(x, {5, 5}), Contains("{5, 5} are 25 elements but the container holds 24"));
  TensorView a(x, {2, 3, 4});
  CHECK_THROWS_WITH(a.slice(3, 0, 1), Contains("slice's argument 'axis' is 3; use 0 to 2"));
  CHECK_THROWS_WITH(a.slice(1, 2, 5),
                    Contains("slice of axis 1 from 2 to 5; use 0 <= begin <= end <= 3") && Contains(here));
  CHECK_THROWS_WITH(a.select(0, 2), Contains("index 2 of axis 0 is outside; its extent is 2"));
  CHECK_THROWS_WITH(a.permute({0, 0, 1}), Contains("permute's argument 'order' is {0, 0, 1}"));
  CHECK_THROWS_WITH(a.permute({0, 1, 64}), Contains("name each of 0 to 2 once"));
  CHECK_THROWS_WITH(a.transpose().reshape({24}), Contains("not contiguous; copy it first"));
  CHECK_THROWS_WITH(a.reshape({5, 5}), Contains("reshape of {2, 3, 4} to {5, 5}"));
  CHECK_THROWS_WITH(a.reshape({-4, -6}), Contains("the same number of elements"));
  CHECK_THROWS_WITH(a.broadcast_to({2, 5, 4}), Contains("broadcast_to of {2, 3, 4} to {2, 5, 4}"));
  CHECK_THROWS_WITH(a.broadcast_to({4}), Contains("broadcast_to"));
  CHECK_THROWS_WITH(TensorView(x).broadcast_to({std::int64_t{1} << 60, 24}), Contains("overflow 64 bits"));
  CHECK_THROWS_AS(a(0, 3, 0), UserError);
  CHECK_THROWS_AS(a(0, -1, 0), UserError);
}

TEST_CASE("a tensor owns aligned memory in row-major order") {
  auto t = Tensor<float, 2>::zeros({3, 5});
  CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 64 == 0);
  for (float v : t)
    REQUIRE(v == 0);
  t.fill(2.5f);
  TensorView<const float, 2> view = t;
  CHECK(view(2, 4) == 2.5f);
  CHECK(t.size() == 15);
  auto moved = std::move(t);
  CHECK(t.size() == 0);
  CHECK(t.data() == nullptr);
  CHECK(moved.view()(0, 0) == 2.5f);
  CHECK(Tensor<bf16, 3>::empty(Device::cpu(), {2, 0, 4}).size() == 0);
}

TEST_CASE("a tensor with impossible extents is a user error") {
  CHECK_THROWS_WITH((Tensor<float, 2>::empty({2, -1})), Contains("extent 1 is -1") && Contains(__FILE__));
  CHECK_THROWS_WITH((Tensor<double, 1>::empty({std::int64_t{1} << 52})),
                    Contains("no memory for a Buffer of"));
  CHECK_THROWS_WITH((Tensor<double, 2>::empty({std::int64_t{1} << 40, std::int64_t{1} << 40})),
                    Contains("overflow 64 bits"));
}
