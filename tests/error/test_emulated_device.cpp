// Tests kernels, ops and assign on an emulated GPU: their results, its own memory, and findings as errors of
// a stream.
#include "error_test.h"
#include "random_numbers.h"

#include <kiln/jit/runtime/emulated/counters.h>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(B);

constexpr int sum_line = __LINE__ + 4;
const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  expects(x.size() == out.size(), "x's and out's sizes");
  auto [i] = program_tile(out, B);
  out.tile(i).store(x.tile(i).load() + y.tile(i).load());
});
const auto peek = kernel("peek", [](raw::Ptr<const float> x, View<float, 1> out) {
  auto [i] = program_tile(out, B);
  out.tile(i).store(raw::load(x + (i + arange(B)))); // reads whole tiles, also past the end
});

Tensor<float, 1> numbers(std::int64_t n, float first) {
  auto t = Tensor<float, 1>::empty({n});
  for (std::int64_t i = 0; i < n; ++i)
    t.data()[i] = first + static_cast<float>(i);
  return t;
}

} // namespace

TEST_CASE("kernels and assign run on an emulated gpu", "[emulated]") {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    const Device gpu = Device::emulated(arch);
    Random random;
    KILN_SEED(random);
    const std::int64_t n = random.integer(1, 3000);
    INFO(arch << ", n = " << n);
    auto x = numbers(n, 1).to(gpu), y = numbers(n, 0.5f).to(gpu);
    auto out = Tensor<float, 1>::empty(gpu, {n});
    CHECK(out.device() == gpu);
    Stream stream(gpu);
    Event before, after;
    before.record(stream);
    add.launch(stream, {B = 128}, x, y, out);
    assign(stream, out, out * 2.0f + x);
    after.record(stream);
    stream.synchronize();
    CHECK(after.query());
    CHECK(after.elapsed_ms(before) > 0);
    auto result = out.to(Device::cpu());
    int wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto f = static_cast<float>(i);
      wrong += result.data()[i] != 2 * (1 + f + 0.5f + f) + 1 + f;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("an output that overlaps an operand goes through a temporary on an emulated gpu", "[emulated]") {
  const Device gpu = Device::emulated("sm_80");
  auto x = numbers(100, 0).to(gpu);
  Stream& stream = Stream::default_stream(gpu);
  assign(stream, x.view().slice(0, 1, 100), x.view().slice(0, 0, 99) + 1.0f);
  stream.synchronize();
  auto result = x.to(Device::cpu());
  for (int i = 0; i < 100; ++i)
    CHECK(result.data()[i] == static_cast<float>(i));
}

TEST_CASE("an emulated gpu does not accept memory of the host or of another device", "[emulated]") {
  const Device gpu = Device::emulated("sm_80"), other = Device::emulated("sm_90a");
  auto host = numbers(64, 0);
  auto here = host.to(gpu);
  Stream on_gpu(gpu), on_cpu;
  CHECK_THAT(error_of([&] { add.launch(on_gpu, {B = 64}, here, host, here); }),
             Catch::Contains("argument 2 is memory of the host, which kernels on " + to_string(gpu) +
                             " do not reach; copy it to a Buffer of " + to_string(gpu)));
  CHECK_THAT(error_of([&] { add.launch(on_cpu, {B = 64}, host, here, host); }),
             Catch::Contains("argument 2 is memory of " + to_string(gpu) +
                             ", which kernels on cpu do not reach; launch on a stream of " + to_string(gpu) +
                             ", or copy it to the host"));
  CHECK_THAT(error_of([&] { assign(on_cpu, host, here + 1.0f); }),
             Catch::Contains("operand 0 of the expression is memory of " + to_string(gpu)));
  CHECK_THAT(error_of([&] { copy(on_cpu, host.data(), here.data(), 4); }),
             Catch::Contains("copy on a stream of the CPU: 'from' is memory of " + to_string(gpu)));
  CHECK_THAT(error_of([&] { copy(on_gpu, here.data() + 60, host.data(), 20); }),
             Catch::Contains("'to' has 16 bytes up to the end of its allocation, and 20 were requested"));
  auto there = here.to(other); // copies from one device to another
  CHECK(there.to(Device::cpu()).data()[63] == 63);
}

TEST_CASE("a finding of an emulated gpu becomes the error of the stream", "[emulated]") {
  const Device gpu = Device::emulated("sm_80");
  auto out = Tensor<float, 1>::empty(gpu, {100});
  auto unwritten = Tensor<float, 1>::empty(gpu, {100}), x = numbers(100, 1).to(gpu);
  Stream stream(gpu);
  add.launch(stream, {B = 32}, x, unwritten, out);
  const std::string first = error_of([&] { stream.synchronize(); });
  CHECK_THAT(first, Catch::StartsWith("kernel \"add\" on " + to_string(gpu) + ": "));
  CHECK_THAT(first, Catch::Contains("uninitialised read") &&
                        Catch::Contains("test_emulated_device.cpp:" + std::to_string(sum_line) + ")") &&
                        Catch::Contains("(400 bytes at "));
  CHECK(stream.failed());
  CHECK(error_of([&] { add.launch(stream, {B = 32}, x, x, out); }) == first);
  stream.clear_error();
  add.launch(stream, {B = 32}, x, x, out);
  stream.synchronize();
  // A copy of uninitialised memory is uninitialised too.
  auto copied = Tensor<float, 1>::empty(gpu, {100});
  copy(stream, copied.data(), unwritten.data(), 400);
  add.launch(stream, {B = 32}, x, copied, out);
  CHECK_THAT(error_of([&] { stream.synchronize(); }), Catch::Contains("uninitialised read"));
  stream.clear_error();
}

TEST_CASE("an emulated gpu reports accesses out of bounds, with the same report each time", "[emulated]") {
  const Device gpu = Device::emulated("sm_90a", {.checks = "bounds", .seed = 5});
  auto x = numbers(100, 1).to(gpu), out = Tensor<float, 1>::empty(gpu, {128});
  std::string reports[2];
  for (std::string& report : reports) {
    Stream stream(gpu);
    peek.launch(stream, {B = 128}, x.data(), out);
    report = error_of([&] { stream.synchronize(); });
    stream.clear_error();
    CHECK_THAT(report, Catch::Contains("out of bounds") &&
                           Catch::Contains("past the end of an allocation (400 bytes"));
  }
  CHECK(reports[0] == reports[1]);
}

TEST_CASE("an emulated gpu counts accesses, and the counts do not depend on its threads", "[emulated]") {
  const Device counting = Device::emulated("sm_80", {.counters = true}),
               threaded = Device::emulated("sm_80", {.checks = "init", .threads = 3});
  const std::int64_t n = 4096;
  Tensor<float, 1> results[2];
  for (Device gpu : {counting, threaded}) {
    auto x = numbers(n, 1).to(gpu), out = Tensor<float, 1>::empty(gpu, {n});
    Stream stream(gpu);
    add.launch(stream, {B = 256, num_warps = 2}, x, x, out);
    stream.synchronize();
    results[gpu == threaded] = out.to(Device::cpu());
  }
  CHECK(std::memcmp(results[0].data(), results[1].data(), static_cast<std::size_t>(4 * n)) == 0);
  DeviceCounters counters = counters_of(counting);
  REQUIRE(counters.kernels.size() == 1);
  const auto& k = counters.kernels[0];
  CHECK(k.kernel == "add");
  CHECK(k.blocks == n / 256);
  CHECK(k.all.global.read_bytes == 8 * n); // x is read twice
  CHECK(k.all.global.written_bytes == 4 * n);
  CHECK(k.all.sectors == 12 * n / 32);
  CHECK_THAT(counters.text(), Catch::Contains("kernel add: 1 launch, 16 blocks") &&
                                  Catch::Contains("test_emulated_device.cpp:"));
  clear_counters(counting);
  CHECK(counters_of(counting).kernels.empty());
  const std::string name = to_string(threaded);
  CHECK_THAT(
      error_of([&] { counters_of(threaded); }),
      Catch::EndsWith(name + " has no counters; make it with Device::emulated(arch, {.counters = true})"));
}

TEST_CASE("programs that wait for each other run if they are resident together", "[emulated]") {
  const auto relay = kernel("relay", [](View<int, 1> flags, View<int, 1> order) {
    auto i = program_id(0);
    auto later = flags.at(i + 1); // of the next program, which a GPU starts after this one
    while_loop(
        later.atomic_or(0), [](auto set) { return set == 0; }, [&](auto) { return later.atomic_or(0); });
    order.at(i).store(order.at(i + 1).load() + 1); // ordered by the atomics
    flags.at(i).atomic_exchange(1);
  });
  const int programs = 5;
  auto run = [&](const EmulatorOptions& options) {
    const Device gpu = Device::emulated("sm_90a", options);
    auto flags = Tensor<int, 1>::empty({programs + 1}), order = Tensor<int, 1>::empty({programs + 1});
    for (int i = 0; i <= programs; ++i)
      flags.data()[i] = i == programs, order.data()[i] = 0;
    auto there = flags.to(gpu), result = order.to(gpu);
    Stream stream(gpu);
    relay.launch(stream, Config{}, Grid{programs}, there, result);
    stream.synchronize();
    return result.to(Device::cpu());
  };
  EmulatorOptions together = EmulatorOptions::from_environment();
  together.resident = programs;
  for (std::uint64_t seed : {0, 1, 2, 3}) {
    together.seed = seed;
    auto order = run(together);
    for (int i = 0; i < programs; ++i)
      CHECK(order.data()[i] == programs - i);
  }
  EmulatorOptions alone = together;
  alone.resident = 1; // with the usual budget, which would last for minutes
  CHECK_THROWS_WITH(run(alone), Catch::Contains("deadlock") && Catch::Contains("and spin") &&
                                    Catch::Contains("4 blocks have not started"));
  CHECK(to_string(Device::emulated("sm_80", together)).find(",resident=5") != std::string::npos);
  CHECK(Device::parse("emulated:sm_80,resident=7") == Device::parse("emulated:sm_80,resident=7"));
  CHECK(error_of([] {
          Device::parse("emulated:sm_80,resident=0");
        }).find("resident is 0; give a number from 1 to 65536") != std::string::npos);
  alone.resident = 0;
  CHECK_THAT(error_of([&] { Device::emulated("sm_80", alone); }),
             Catch::EndsWith("EmulatorOptions::resident is 0; give a number from 1 to 65536"));
}
