// Tests that KILN_DEBUG=1 checks an index of a read only where the result of the read is used, whatever the
// index and the result pass through.
#include "error/error_test.h"

#include <kiln/jit/base/options.h>

#include <functional>

using namespace kiln;
using kiln::test::error_of;

constexpr Constant<8> BN;

namespace {

using X = View<const float, 1>;
using Ids = View<const std::int32_t, 1>;
using Y = View<float, 1>;

// The error of a kernel with 10 elements of x, the indices, and a result of 8.
template <class F>
std::string error_with(const F& function, std::vector<std::int32_t> indices, Device device) {
  Options debug = options();
  debug.debug = true;
  ScopedOptions debugging(debug);
  const auto k = kernel("used", function);
  Stream stream(device);
  auto x = Tensor<float, 1>::zeros(device, {10}), y = Tensor<float, 1>::zeros(device, {8});
  auto ids = Tensor<std::int32_t, 1>::empty({indices.size()});
  std::copy(indices.begin(), indices.end(), ids.data());
  auto there = ids.to(device);
  std::string error = error_of([&] {
    k.launch(stream, {}, Grid{1}, x, there, y);
    stream.synchronize();
  });
  stream.clear_error();
  return error;
}

// Five indices of a tile of eight are read; the rest hold `other`. With `good` the kernel is correct, and
// with `bad` an element that it uses is read outside of x.
template <class F>
void check(const char* what, const F& function, const std::vector<std::int32_t>& good,
           const std::vector<std::int32_t>& bad) {
  for (Device device : {Device::cpu(), Device::emulated("sm_80")}) {
    INFO(what << " on " << to_string(device));
    CHECK(error_with(function, good, device) == "no error");
    CHECK_THAT(error_with(function, bad, device), Catch::Contains("outside the"));
  }
}

const std::vector<std::int32_t> good{3, 1, 4, 0, 2}, bad{3, 1, 40, 0, 2};

} // namespace

TEST_CASE(
    "an index from outside of a view is not checked where a store masks its lane off, however it moved") {
  // `other` is 99, and the mask lets through what is below 90, so that 40 is a mistake.
  const auto stored = [](auto moved) {
    return [moved](X x, Ids ids, Y y) {
      auto o = offset(BN, 0);
      Tile r = moved(ids.tile(o).load_or(99));
      y.tile(o).store(x.at(r).load() * 2, r < 90);
    };
  };
  check("flip", stored([](auto r) { return flip(r, BN); }), good, bad);
  check("sort", stored([](auto r) { return sort(r, BN); }), good, bad);
  check("descending sort", stored([](auto r) { return sort(r, BN, {.descending = true}); }), good, bad);
  check("gather", stored([](auto r) { return gather(r, 7 - arange(BN), BN); }), good, bad);
  check("cumsum", stored([](auto r) { return cumsum(r, BN) - 1; }), {1, 2, 1, 1, 1}, bad);
  check("loop", stored([](auto r) { return for_range(0, 3, 1, r, [](auto, auto s) { return s + 0; }); }),
        good, bad);
  check("if_else",
        stored([](auto r) { return if_else(program_id(0) == 0, [&] { return r; }, [&] { return r + 1; }); }),
        good, bad);
  check("Var", stored([](auto r) {
          Var v = r;
          if_then(program_id(0) == 0, [&] { v = v + 0; });
          return v + 0;
        }),
        good, bad);
  check("where", stored([](auto r) { return where(arange(BN) < 3, r, flip(r, BN)); }), {3, 1, 4, 4, 4}, bad);
  check(
      "topk",
      [](X x, Ids ids, Y y) {
        auto [r, at] = topk(ids.tile(offset(BN, 0)).load_or(-1), 6_c, BN);
        y.tile(offset(6_c, 0)).store(x.at(r).load(), r >= 0);
      },
      good, bad);
  check(
      "narrow",
      [](X x, Ids ids, Y y) {
        Tile r = narrow(ids.tile(offset(BN, 0)).load_or(99), 2, 4_c, BN);
        y.tile(offset(4_c, 0)).store(x.at(r).load(), r < 90);
      },
      good, bad);
}

TEST_CASE("an index of a read is not checked where a select does not choose the result") {
  check("where",
        [](X x, Ids ids, Y y) {
          auto o = offset(BN, 0);
          Tile r = ids.tile(o).load() + 6;
          y.tile(o).store(where(r < 10, x.at(r).load(), 0));
        },
        {3, 4, 5, 9}, {3, -7, 5, 9});
  check("scalar where",
        [](X x, Ids ids, Y y) {
          auto r = ids.at(0).load();
          y.at(0).store(where(r >= 0, x.at(r).load(), 0));
        },
        {-1}, {10});
  check(
      "and",
      [](X x, Ids ids, Y y) {
        auto o = offset(BN, 0);
        Tile r = ids.tile(o).load();
        Tile positive = (r < 90) & (x.at(r).load() > 0);
        y.tile(o).store(where(positive, 1.0f, 0.0f));
      },
      {3, 99, 4}, bad);
  check("gather of a tile",
        [](X x, Ids ids, Y y) {
          auto o = offset(BN, 0);
          Tile r = ids.tile(o).load();
          y.tile(o).store(where(r > 0, gather(x.tile(o).load(), r - 1, BN), 0));
        },
        {0, 1, 8, 0, 2}, {0, 1, 9, 0, 2});
  check("both branches",
        [](X x, Ids ids, Y y) {
          auto r = ids.at(0).load();
          auto v = x.at(r).load();
          y.at(0).store(if_else(r < 90, [&] { return v; }, [&] { return Scalar<float>(1.f); }));
        },
        {99}, {10});
  check("a branch",
        [](X x, Ids ids, Y y) {
          auto r = ids.at(0).load();
          auto v = x.at(r).load();
          if_then(r < 90, [&] { y.at(0).store(v); });
        },
        {99}, {10});
}

TEST_CASE("an index of a read is checked where its result is reduced, returned from a loop, or an index") {
  check(
      "sum", [](X x, Ids ids, Y y) { y.at(0).store(sum(x.at(ids.tile(offset(BN, 0)).load_or(99)).load())); },
      good, bad);
  check(
      "loop",
      [](X x, Ids ids, Y y) {
        y.at(0).store(for_range(0, ids.extent(0), 1, Scalar<float>(0.f),
                                [&](auto i, auto s) { return s + x.at(ids.at(i).load()).load(); }));
      },
      good, bad);
  check(
      "index",
      [](X x, Ids ids, Y y) {
        auto o = offset(BN, 0);
        Tile first = ids.tile(o).load();
        y.tile(o).store(x.at(ids.at(first).load()).load());
      },
      good, bad);
  check(
      "largest", [](X x, Ids ids, Y y) { y.at(0).store(x.at(max(ids.at(arange(5_c)).load())).load()); }, good,
      bad);
}

TEST_CASE("the result of a scalar read outside of its view is reported once, also if a whole tile uses it") {
  const auto repeated = [](X x, Ids ids, Y y) {
    y.tile(offset(BN, 0)).store(broadcast(x.at(ids.at(0).load()).load(), BN));
  };
  const std::string error = error_with(repeated, {10}, Device::emulated("sm_80"));
  CHECK_THAT(error, Catch::Contains("outside the view") && !Catch::Contains("times more"));
}
