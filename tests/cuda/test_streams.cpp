// Tests streams and events of CUDA devices.
#include "cuda_test.h"
#include "test_seed.h"

#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/cuda/current.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

void add_one_to(void* n) { ++*static_cast<std::atomic<int>*>(n); }
void fail(void*) { throw UserError("the host function is unhappy"); }
void sleep_for(void* ms) { std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int*>(ms))); }

} // namespace

TEST_CASE("a CUDA stream runs host functions in order and is destroyed") {
  FreshFake fresh;
  auto before = alive();
  {
    Stream stream(Device::cuda(0));
    CHECK(stream.device() == Device::cuda(0));
    CHECK(stream.cuda_handle());
    std::atomic<int> n{0};
    for (int i = 0; i < 100; ++i)
      stream.host_function(add_one_to, &n);
    stream.synchronize();
    CHECK(n == 100);
    CHECK(stream.query());
    CHECK_FALSE(stream.failed());
    Stream moved(std::move(stream));
    moved.host_function(add_one_to, &n);
    moved = Stream(Device::cuda(1)); // waits for the stream that it replaces
    CHECK(n == 101);
    CHECK(moved.device() == Device::cuda(1));
    CHECK(error_of<UserError>([&] { stream.synchronize(); }) ==
          "use of a stream that was moved from; use the stream it was moved to");
    CHECK(error_of<UserError>([&] { copy(stream, &n, &n, 1); }) ==
          "use of a stream that was moved from; use the stream it was moved to");
  }
  CHECK(alive() == before);
}

TEST_CASE("each device has one default stream") {
  FreshFake fresh;
  Stream& a = Stream::default_stream(Device::cuda(0));
  CHECK(&a == &Stream::default_stream(Device::cuda(0)));
  CHECK(&a != &Stream::default_stream(Device::cuda(1)));
  CHECK(Stream::default_stream(Device::cuda(1)).device() == Device::cuda(1));
  CHECK(Stream::default_stream().device() == Device::cpu());
}

TEST_CASE("a stream with work left is not done") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  int ms = 50;
  stream.host_function(sleep_for, &ms);
  CHECK_FALSE(stream.query());
  stream.synchronize();
  CHECK(stream.query());
}

TEST_CASE("an exception of a host function is the stream's error until it is cleared") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  std::atomic<int> n{0};
  stream.host_function(fail, nullptr);
  try {
    stream.host_function(add_one_to, &n); // discarded, or an error if the first has run
  } catch (const UserError&) {
  }
  CHECK(error_of<UserError>([&] { stream.synchronize(); }) == "the host function is unhappy");
  CHECK(stream.failed());
  CHECK(n == 0);
  char byte = 0;
  Buffer b(Device::cuda(0), 1);
  CHECK(error_of<UserError>([&] { stream.host_function(add_one_to, &n); }) == "the host function is unhappy");
  CHECK(error_of<UserError>([&] { copy(stream, b.data(), &byte, 1); }) == "the host function is unhappy");
  CHECK(error_of<UserError>([&] { fill_bytes(stream, b.data(), 1, 1); }) == "the host function is unhappy");
  stream.clear_error();
  CHECK_FALSE(stream.failed());
  stream.host_function(add_one_to, &n);
  stream.synchronize();
  CHECK(n == 1);
}

TEST_CASE("an error of a CUDA stream that was not reported is logged") {
  FreshFake fresh;
  LogCapture log;
  {
    Stream stream(Device::cuda(0));
    stream.host_function(fail, nullptr);
  }
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0] == "error: a stream was destroyed with an error: the host function is unhappy");
}

TEST_CASE("an error that a CUDA stream threw is not logged") {
  FreshFake fresh;
  LogCapture log;
  {
    Stream stream(Device::cuda(0));
    stream.host_function(fail, nullptr);
    CHECK_THROWS_WITH(stream.synchronize(), "the host function is unhappy");
  }
  CHECK(log.lines().empty());
}

TEST_CASE("using CUDA in a host function is an error") {
  FreshFake fresh;
  struct Shared {
    Stream stream{Device::cuda(0)}, other{Device::cuda(1)};
    std::string own, others, buffer, cleared;
  } shared;
  shared.stream.host_function(
      [](void* p) {
        auto& s = *static_cast<Shared*>(p);
        s.own = error_of<UserError>([&] { s.stream.synchronize(); });
        s.cleared = error_of<UserError>([&] { s.stream.clear_error(); });
        s.others = error_of<UserError>([&] { s.other.synchronize(); });
        s.buffer = error_of<UserError>([] { Buffer(Device::cuda(0), 8); });
      },
      &shared);
  shared.stream.synchronize();
  CHECK(shared.own ==
        "a stream's command synchronizes with its own stream, which would wait forever; use an event "
        "or another stream");
  CHECK(shared.cleared == "a stream's command clears its own stream's error; do so after synchronize()");
  CHECK(shared.others ==
        "a host function of a CUDA stream uses cuda:1, which the driver forbids; do so after "
        "synchronize()");
  CHECK(shared.buffer ==
        "a host function of a CUDA stream uses cuda:0, which the driver forbids; do so after "
        "synchronize()");
}

TEST_CASE("a stream of the caller can be adopted and is not destroyed") {
  std::string error, line;
  FreshFake fresh;
  auto& device = cuda::DeviceState::get(0);
  cuda::StreamHandle theirs = nullptr;
  {
    cuda::Current current(device);
    REQUIRE(device.driver().cuStreamCreate(&theirs, 0) == cuda::Result::Success);
  }
  auto streams = fake().live("streams");
  std::atomic<int> n{0};
  int ms = 20;
  {
    Stream adopted = Stream::adopt(Device::cuda(0), theirs);
    CHECK(adopted.cuda_handle() == theirs);
    adopted.host_function(sleep_for, &ms);
    adopted.host_function(add_one_to, &n);
  } // the destructor does not wait
  CHECK(fake().live("streams") == streams);
  {
    Stream again = Stream::adopt(Device::cuda(0), theirs);
    again.synchronize();
    CHECK(n == 1);
    Stream legacy = Stream::adopt(Device::cuda(0), nullptr);
    legacy.host_function(add_one_to, &n);
    legacy.synchronize();
    CHECK(n == 2);
    CHECK(legacy.cuda_handle() == nullptr);
  }
  cuda::clean_up(device, [&] { device.driver().cuStreamDestroy(theirs); });
  error = error_of<UserError>([&] { Stream::adopt(Device::cpu(), theirs); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": Stream::adopt takes a stream of a CUDA device, and the device is cpu; pass "
                        "Device::cuda(index)");
}

TEST_CASE("errors of the driver name the call and the device") {
  FreshFake fresh;
  fake().fail("cuStreamCreate", 1, 999);
  CHECK(error_of<TargetError>([] { Stream(Device::cuda(0)); }) ==
        "cuda:0: cuStreamCreate: CUDA_ERROR_UNKNOWN (unknown error)");
  Stream stream(Device::cuda(0));
  fake().fail("cuStreamSynchronize", 1, 999);
  CHECK(error_of<TargetError>([&] { stream.synchronize(); }) ==
        "cuda:0: Stream::synchronize: CUDA_ERROR_UNKNOWN (unknown error)");
  fake().fail("cuLaunchHostFunc", 1, 999);
  std::atomic<int> n{0};
  CHECK(error_of<TargetError>([&] { stream.host_function(add_one_to, &n); }) ==
        "cuda:0: cuLaunchHostFunc: CUDA_ERROR_UNKNOWN (unknown error)");
  Event event;
  fake().fail("cuEventCreate", 1, 999);
  CHECK(error_of<TargetError>([&] { event.record(stream); }) ==
        "cuda:0: cuEventCreate: CUDA_ERROR_UNKNOWN (unknown error)");
  CHECK(event.query()); // it has no record
  event.record(stream);
  fake().fail("cuEventSynchronize", 1, 999);
  CHECK(error_of<TargetError>([&] { event.synchronize(); }) ==
        "cuda:0: Event::synchronize: CUDA_ERROR_UNKNOWN (unknown error)");
  stream.synchronize();
  CHECK(n == 0);
}

// --- Events ------------------------------------------------------------------------------------------------

TEST_CASE("events mark and time a CUDA stream") {
  std::string error, line;
  FreshFake fresh;
  auto before = alive();
  {
    Stream stream(Device::cuda(0));
    Event begin, end;
    int ms = 30;
    error = error_of<UserError>([&] { end.elapsed_ms(begin); });
    line = KILN_HERE(-1);
    CHECK(error ==
          line + ": elapsed_ms between events of which one is not recorded or not done; record both and "
                 "synchronize with the later one");
    begin.record(stream);
    stream.host_function(sleep_for, &ms);
    end.record(stream);
    CHECK_FALSE(end.query());
    end.synchronize();
    CHECK(end.query());
    CHECK(end.elapsed_ms(begin) >= 29);
    CHECK(end.elapsed_ms(begin) < 10000);
    for (int i = 0; i < 50; ++i) // the driver's events are reused
      end.record(stream);
    end.synchronize();
    CHECK(fake().live("events") - before["events"] <= 3);
    // Records on another device.
    Stream other(Device::cuda(1));
    end.record(other);
    end.synchronize();
    error = error_of<UserError>([&] { end.elapsed_ms(begin); });
    line = KILN_HERE(-1);
    CHECK(error ==
          line +
              ": elapsed_ms between events recorded on different devices, whose clocks are not comparable; "
              "record both on one device");
    Stream cpu;
    end.record(cpu);
    end.synchronize();
    error = error_of<UserError>([&] { end.elapsed_ms(begin); });
    line = KILN_HERE(-1);
    CHECK(error ==
          line +
              ": elapsed_ms between events recorded on different devices, whose clocks are not comparable; "
              "record both on one device");
    begin.record(cpu);
    begin.synchronize();
    CHECK(begin.elapsed_ms(end) >= 0);
  }
  CHECK(alive() == before);
}

TEST_CASE("streams of all kinds wait for each other's events") {
  FreshFake fresh;
  struct Place {
    const char* name;
    Device device;
  } places[] = {{"cpu", Device::cpu()}, {"cuda:0", Device::cuda(0)}, {"cuda:1", Device::cuda(1)}};
  for (const Place& first : places)
    for (const Place& second : places) {
      INFO(first.name << " before " << second.name);
      Stream a(first.device), b(second.device);
      struct Order {
        std::atomic<int> done{0};
        int seen = -1;
      } order;
      a.host_function(
          [](void* p) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            static_cast<Order*>(p)->done = 1;
          },
          &order);
      Event event;
      event.record(a);
      b.wait(event);
      b.host_function([](void* p) { static_cast<Order*>(p)->seen = static_cast<Order*>(p)->done; }, &order);
      b.synchronize();
      CHECK(order.seen == 1);
    }
}

TEST_CASE("an event may be destroyed while it is recorded and waited for") {
  FreshFake fresh;
  auto before = fake().live("events");
  Stream a(Device::cuda(0)), b(Device::cuda(0)), cpu;
  int ms = 20;
  {
    Event event;
    a.host_function(sleep_for, &ms);
    event.record(a);
    b.wait(event);
    cpu.wait(event);
  }
  cpu.synchronize();
  b.synchronize();
  CHECK(fake().live("events") == before);
}

TEST_CASE("many threads use one CUDA stream, its events and buffers") {
  FreshFake fresh;
  Buffer::trim();
  auto before = alive();
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  {
    Stream shared(Device::cuda(0));
    std::atomic<int> calls{0}, wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        Stream own(Device::cuda(static_cast<int>(t % 2)));
        Event event;
        for (unsigned i = 0; i < 40; ++i) {
          auto x = random_floats(100 + i, seed + t * 1000 + i);
          std::vector<float> y(x.size());
          auto bytes = static_cast<std::int64_t>(x.size() * sizeof(float));
          Buffer b(Device::cuda(static_cast<int>(t % 2)), bytes);
          copy(own, b.data(), x.data(), bytes);
          event.record(own);
          shared.wait(event);
          copy(shared, y.data(), b.data(), bytes);
          shared.host_function(add_one_to, &calls);
          event.record(shared);
          event.synchronize();
          wrong += x != y;
        }
      });
    for (auto& t : threads)
      t.join();
    shared.synchronize();
    CHECK(calls == 240);
    CHECK(wrong == 0);
  }
  Buffer::trim();
  CHECK(alive() == before);
}
