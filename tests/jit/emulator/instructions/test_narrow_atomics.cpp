// Tests that an atomic operation on an 8-bit or 16-bit element accesses no neighbouring element: no race with a
// store to it, no read of unwritten memory, and nothing past the end of a buffer.
#include "error/error_test.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);

namespace {

template <class T> void check_neighbours(const char* arch, std::int64_t columns) {
  // Each program stores to column 0 of its row, and updates column 1 of another row.
  const auto mark = kernel("mark", [](View<const std::int32_t, 1> to, View<T, 2> r) {
    auto [i] = program_tile(to, BN);
    r.at(i + arange(BN), 0).store(full<T>(7, BN));
    r.at(cast<std::int64_t>(to.tile(i).load()), 1).atomic_add(full<T>(1, BN));
    r.at(cast<std::int64_t>(to.tile(i).load()), 1).atomic_max(full<T>(3, BN));
  });
  constexpr std::int64_t rows = 8;
  const Device device = Device::emulated(arch);
  Stream stream(device);
  auto to = Tensor<std::int32_t, 1>::zeros({rows});
  for (std::int64_t i = 0; i < rows; ++i)
    to.data()[i] = static_cast<std::int32_t>((i + 1) / 2 % rows);
  auto r = Tensor<T, 2>::zeros(device, {rows, columns});
  auto rows_to = to.to(device);
  mark.launch(stream, {BN = 2}, rows_to, r);
  REQUIRE(error_of([&] { stream.synchronize(); }) == "no error");
  auto host = r.to(Device::cpu());
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t times = 0;
    for (std::int64_t j = 0; j < rows; ++j)
      times += to.data()[j] == i;
    INFO("row " << i);
    CHECK(double(float(host.view()(i, 0))) == 7);
    if (times == 0) CHECK(double(float(host.view()(i, 1))) == 0);
    if (times == 1) CHECK(double(float(host.view()(i, 1))) == 3);
    if (times == 2) CHECK((double(float(host.view()(i, 1))) == 3 || double(float(host.view()(i, 1))) == 4));
  }
}

} // namespace

TEMPLATE_TEST_CASE("narrow atomics do not race with stores to their neighbours", "[emulator]", std::int16_t,
                   std::uint16_t, bf16, f16, std::int8_t, std::uint8_t) {
  const char* arch = GENERATE("sm_80", "sm_90a");
  check_neighbours<TestType>(arch, GENERATE(2, 3));
}

TEMPLATE_TEST_CASE("a narrow atomic at the end of a buffer, next to memory that nothing wrote", "[emulator]",
                   std::int16_t, bf16, std::int8_t, std::uint8_t) {
  using T = TestType;
  const auto last = kernel("last", [](View<T, 1> r) {
    r.at(r.size() - 1).store(full<T>(5));
    r.at(r.size() - 1).atomic_add(full<T>(2));
    r.at(r.size() - 1).atomic_compare_exchange(full<T>(7), full<T>(9));
  });
  const Device device = Device::emulated(GENERATE("sm_80", "sm_90a"));
  for (std::int64_t size : {1, 2, 3, 5, 6, 7}) {
    INFO(size << " elements");
    Stream stream(device);
    auto r = Tensor<T, 1>::empty(device, {size}); // only the last element is written
    last.launch(stream, {}, Grid{1}, r);
    REQUIRE(error_of([&] { stream.synchronize(); }) == "no error");
    T host{};
    copy(stream, &host, r.data() + (size - 1), sizeof(T));
    stream.synchronize();
    CHECK(double(float(host)) == 9);
  }
}

TEST_CASE("a race of a narrow atomic with a store to the same element is found", "[emulator]") {
  const auto race = kernel("race", [](View<std::int16_t, 1> r) {
    auto first = program_id(0) == 0;
    if_then(first, [&] { r.at(1).store(std::int16_t(7)); });
    if_then(!first, [&] { r.at(1).atomic_add(std::int16_t(1)); });
  });
  const Device device = Device::emulated("sm_80");
  Stream stream(device);
  auto r = Tensor<std::int16_t, 1>::zeros(device, {2});
  race.launch(stream, {}, Grid{2}, r);
  CHECK_THAT(error_of([&] { stream.synchronize(); }), Catch::Contains("race"));
  stream.clear_error();
}

TEST_CASE("atomics on flags of one byte") {
  const auto set =
      kernel("set", [](View<const std::int32_t, 1> at, View<bool, 1> flags, View<std::int32_t, 1> old) {
        auto [i] = program_tile(at, BN);
        Tile index = cast<std::int64_t>(at.tile(i).load());
        old.tile(i).store(cast<std::int32_t>(flags.at(index).atomic_or(full<bool>(true, BN))));
      });
  for (const char* name : {"cpu", "emulated:sm_80"}) {
    INFO(name);
    const Device device = Device::parse(name);
    Stream stream(device);
    auto at = Tensor<std::int32_t, 1>::zeros({6});
    for (int i = 0; i < 6; ++i)
      at.data()[i] = i / 2 * 2; // each even flag twice
    auto flags = Tensor<bool, 1>::zeros(device, {7});
    auto old = Tensor<std::int32_t, 1>::zeros(device, {6});
    auto places = at.to(device);
    set.launch(stream, {BN = 2}, places, flags, old);
    stream.synchronize();
    auto host = flags.to(Device::cpu());
    auto before = old.to(Device::cpu());
    for (int i = 0; i < 7; ++i)
      CHECK(host.data()[i] == (i < 6 && i % 2 == 0));
    for (int i = 0; i < 6; i += 2)
      CHECK(before.data()[i] + before.data()[i + 1] == 1);
  }
}
