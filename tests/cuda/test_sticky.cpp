// Tests devices that have failed: later calls report it, and the process continues. Each test uses another
// device.
#include "cuda_test.h"

#include <kiln/jit/base/log.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/cuda/launch.h>
#include <kiln/jit/runtime/cuda/memory.h>

#include <atomic>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr int illegal_address = 700, assert_failed = 710;
const std::string advice = "; the device cannot be used again in this process; run with KILN_DEBUG=1, which "
                           "checks indices and waits for "
                           "each launch";

void launch_idle(Stream& stream, const cuda::Function& f, int line) {
  std::uint64_t number = 0;
  void* arguments[] = {&number};
  cuda::launch(stream, f, {1, 1, 1}, {32, 1, 1}, 0, arguments, {}, SourceLocation("user.cpp", line));
}

} // namespace

TEST_CASE("after an illegal address every call on the device reports it, with the kernel and its launch") {
  FreshFake fresh;
  LogCapture quiet; // for the streams that are destroyed at the end
  auto& state = cuda::DeviceState::get(12);
  Device device = Device::cuda(12);
  auto f = load(12, "idle");
  auto stream = std::make_unique<Stream>(device);
  Stream other(device), cpu, healthy(Device::cuda(0));
  Event event;
  event.record(*stream);
  auto buffer = std::make_unique<Buffer>(device, 100);
  cuda::PinnedBuffer pinned(state, 100);
  cuda::GraphCapture capture(other);
  launch_idle(other, f, 1);
  cuda::Graph graph = capture.end();

  launch_idle(*stream, f, 20);
  stream->synchronize(); // this stream did not fail
  fake().set("kernel_result", illegal_address);
  launch_idle(*stream, f, 30);
  std::string text =
      "cuda:12 failed in kernel \"idle\", launched at user.cpp:30: CUDA_ERROR_ILLEGAL_ADDRESS (an "
      "illegal memory access was encountered), found by Stream::synchronize" +
      advice;
  CHECK(error_of<TargetError>([&] { stream->synchronize(); }) == text);
  CHECK(stream->failed());
  CHECK(other.failed());
  CHECK(stream->query());
  CHECK(event.query());
  char host[100] = {};
  CHECK(error_of<TargetError>([&] { stream->synchronize(); }) == text);
  CHECK(error_of<TargetError>([&] { other.synchronize(); }) == text);
  CHECK(error_of<TargetError>([&] { stream->clear_error(); }) == text);
  CHECK(error_of<TargetError>([&] { copy(other, host, buffer->data(), 100); }) == text);
  CHECK(error_of<TargetError>([&] { fill_bytes(other, buffer->data(), 0, 100); }) == text);
  CHECK(error_of<TargetError>([&] { launch_idle(other, f, 40); }) == text);
  CHECK(error_of<TargetError>([&] { graph.launch(other); }) == text);
  CHECK(error_of<TargetError>([&] { event.record(other); }) == text);
  CHECK(error_of<TargetError>([&] { event.synchronize(); }) == text);
  CHECK(error_of<TargetError>([&] { other.wait(event); }) == text);
  CHECK(error_of<TargetError>([&] { other.host_function([](void*) {}, nullptr); }) == text);
  CHECK(error_of<TargetError>([&] { Buffer(device, 10); }) == text);
  CHECK(error_of<TargetError>([&] { cuda::PinnedBuffer(state, 10); }) == text);
  CHECK(error_of<TargetError>([&] { Stream{device}; }) == text);
  CHECK(error_of<TargetError>([&] { cuda::Module::load(state, ptx(), "add"); }) == text);
  CHECK(error_of<TargetError>([&] { cuda::GraphCapture(other, std::source_location::current()); }) == text);

  // Objects of the lost device are destroyed without errors, and other devices still work.
  LogCapture log;
  buffer.reset();
  stream.reset();
  CHECK(log.lines().empty());
  Buffer::trim();
  CHECK(Device::cuda(12).properties().name == "Fake GPU 12");
  copy(healthy, host, host + 50, 50);
  healthy.synchronize();
  copy(cpu, host, host + 50, 50);
  cpu.synchronize();
}

TEST_CASE("a failure that the destructor of a stream finds is logged once") {
  FreshFake fresh;
  auto f = load(17, "idle");
  auto first = std::make_unique<Stream>(Device::cuda(17)),
       second = std::make_unique<Stream>(Device::cuda(17));
  fake().set("kernel_result", illegal_address);
  launch_idle(*first, f, 7);
  LogCapture log;
  first.reset();
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0] ==
        "error: a stream was destroyed with an error: cuda:17 failed in kernel \"idle\", launched at "
        "user.cpp:7: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered), found by "
        "~Stream" +
            advice);
  second.reset();
  CHECK(log.lines().size() == 1);
}

TEST_CASE("a device assert is a sticky error, reported by whichever call comes first") {
  FreshFake fresh;
  auto f = load(13, "idle");
  Stream stream(Device::cuda(13));
  Event event;
  for (int i = 0; i < 3; ++i) // after the third one, the event creates no more events of the driver
    event.record(stream);
  event.synchronize();
  fake().set("kernel_result", assert_failed);
  launch_idle(stream, f, 5);
  // Another thread, which launched nothing, makes the first call. The stream knows its kernels in flight, an
  // event does not.
  std::string found;
  std::thread([&] {
    found = error_of<TargetError>([&] {
      for (;;) {
        event.record(stream);
        event.synchronize();
      }
    });
  }).join();
  std::string what = ": CUDA_ERROR_ASSERT (device-side assert triggered), found by Event::";
  std::string by_record =
      "cuda:13 failed in kernel \"idle\", launched at user.cpp:5" + what + "record" + advice;
  std::string by_event =
      "cuda:13 failed after kernel \"idle\" was launched at user.cpp:5" + what + "synchronize" + advice;
  INFO(found);
  CHECK((found == by_record || found == by_event));
  CHECK(error_of<TargetError>([&] { stream.synchronize(); }) == found);
  LogCapture quiet;
  {
    Stream dies(std::move(stream));
  }
}

TEST_CASE("of several kernels in flight, the message names the last one and says that there are others") {
  FreshFake fresh;
  auto f = load(14, "idle");
  Stream stream(Device::cuda(14));
  fake().set("kernel_ms", 30);
  launch_idle(stream, f, 1);
  launch_idle(stream, f, 2);
  fake().set("kernel_result", illegal_address);
  launch_idle(stream, f, 3);
  CHECK(
      error_of<TargetError>([&] { stream.synchronize(); }) ==
      "cuda:14 failed in one of 3 kernels in flight, the last of them kernel \"idle\", launched at "
      "user.cpp:3: "
      "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered), found by Stream::synchronize" +
          advice);
  LogCapture quiet;
  {
    Stream dies(std::move(stream));
  }
}

TEST_CASE("with KILN_DEBUG the launch itself reports the error of its kernel") {
  FreshFake fresh;
  Options o = options();
  o.debug = true;
  ScopedOptions debugging(o);
  auto f = load(15, "idle");
  Stream stream(Device::cuda(15));
  launch_idle(stream, f, 1);
  fake().set("kernel_result", illegal_address);
  CHECK(error_of<TargetError>([&] { launch_idle(stream, f, 2); }) ==
        "cuda:15 failed in kernel \"idle\", launched at user.cpp:2: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal "
        "memory "
        "access was encountered), found by Stream::synchronize" +
            advice);
  LogCapture quiet;
  {
    Stream dies(std::move(stream));
  }
}

TEST_CASE(
    "host functions behind a failed kernel are discarded once, and events that the CPU waits for fail") {
  FreshFake fresh;
  auto f = load(10, "idle");
  static std::atomic<int> ran, discarded;
  ran = discarded = 0;
  struct Command {
    int unused = 0;
  } command;
  auto count = [](void*, CommandAction action) { ++(action == CommandAction::Run ? ran : discarded); };
  Stream cpu;
  LogCapture quiet;
  {
    Stream stream(Device::cuda(10));
    fake().set("kernel_ms", 50);
    fake().set("kernel_result", assert_failed);
    launch_idle(stream, f, 1);
    for (int i = 0; i < 5; ++i)
      stream.enqueue(count, &command, sizeof command);
    Event event;
    event.record(stream);
    cpu.wait(event);
    CHECK_THROWS_AS(stream.synchronize(), TargetError);
    CHECK_THROWS_AS(stream.synchronize(), TargetError);
    CHECK(error_of<TargetError>([&] { cpu.synchronize(); }).starts_with("cuda:10 failed "));
  }
  CHECK(ran == 0);
  CHECK(discarded == 5);
  cpu.clear_error();
  cpu.synchronize();
}

TEST_CASE("all threads that use a failed device get its error") {
  FreshFake fresh;
  auto f = load(9, "idle");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(6);
  LogCapture quiet;
  for (std::size_t t = 0; t < texts.size(); ++t)
    threads.emplace_back([&, t] {
      texts[t] = error_of<TargetError>([&] {
        Stream stream(Device::cuda(9));
        for (int i = 0;; ++i) {
          if (t == 0 && i == 20) fake().set("kernel_result", illegal_address);
          launch_idle(stream, f, 100);
          Buffer b(Device::cuda(9), 64);
          stream.synchronize();
        }
      });
    });
  for (auto& t : threads)
    t.join();
  CHECK(texts[0].find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  for (const auto& text : texts)
    CHECK(text == texts[0]);
}
