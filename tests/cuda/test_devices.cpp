// Tests CUDA devices: their indices, properties and contexts.
#include "cuda_test.h"

#include <kiln/jit/runtime/cuda/current.h>

#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

TEST_CASE("a CUDA device is a value like the CPU") {
  FreshFake fresh;
  Device d = Device::cuda(1);
  CHECK(d.kind() == DeviceKind::Cuda);
  CHECK(d.index() == 1);
  CHECK(to_string(d) == "cuda:1");
  CHECK(d == Device::cuda(1));
  CHECK_FALSE(d == Device::cuda(0));
  CHECK(Device::cuda_count() == 32);
}

TEST_CASE("a CUDA device has properties in bytes and limits") {
  FreshFake fresh;
  const DeviceProperties& p = Device::cuda(1).properties();
  CHECK(p.name == "Fake GPU 1");
  CHECK(p.isa == "sm_90");
  CHECK(p.sm == 90);
  CHECK(p.multiprocessors == 132);
  CHECK(p.shared_bytes == 227 << 10);
  CHECK(p.l2_bytes == 50 << 20);
  CHECK(p.memory_bytes == 1 << 30);
  CHECK(p.cuda_version == 12040);
  CHECK(p.multiprocessor_threads == 2048);
  CHECK(p.multiprocessor_registers == 65536);
  CHECK(p.multiprocessor_shared_bytes == 228 << 10);
  CHECK(p.clock_hz == 1'980'000'000);
  CHECK(p.memory_clock_hz == 2'619'000'000);
  CHECK(p.memory_bus_bits == 5120);
  CHECK(&p == &Device::cuda(1).properties());
  CHECK(Device::cuda(1).limits().max_programs == 2147483647);
  CHECK(Device::cuda(1).limits().max_scratch_bytes == 227 << 10);
}

TEST_CASE("an index without a device is a user error") {
  std::string error, line;
  FreshFake fresh;
  error = error_of<UserError>([] { Device::cuda(32); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": Device::cuda(32): there are 32 CUDA devices, of indices 0 to 31; use one of them");
  error = error_of<UserError>([] { Device::cuda(-1); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": Device::cuda(-1): there are 32 CUDA devices, of indices 0 to 31; use one of them");
}

TEST_CASE("if a device's properties cannot be read, the next call tries again") {
  FreshFake fresh;
  fake().fail("cuDeviceGetAttribute", 3, 999);
  CHECK(error_of<TargetError>([] { cuda::DeviceState::get(6); }) ==
        "the CUDA driver does not report a device's properties: CUDA_ERROR_UNKNOWN (unknown error)");
  CHECK(cuda::DeviceState::get(6).properties().sm == 90);
}

TEST_CASE("clocks that the driver does not report are zero") {
  FreshFake fresh;
  for (const int clocks : {0, -1}) {
    fake().set("clocks", clocks);
    const cuda::DeviceState device(cuda::driver(), 6);
    CHECK(device.properties().clock_hz == 0);
    CHECK(device.properties().memory_clock_hz == 0);
    CHECK(device.properties().multiprocessor_threads == 2048);
  }
}

TEST_CASE("a context is retained once, by the first call that needs it, and a failure is not final") {
  FreshFake fresh;
  auto& d = cuda::DeviceState::get(7);
  CHECK(fake().calls("cuDevicePrimaryCtxRetain") == 0);
  fake().fail("cuDevicePrimaryCtxRetain", 1, 2);
  CHECK(error_of<TargetError>([&] { Stream stream(Device::cuda(7)); }) ==
        "cuda:7: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { cuda::Current current(d); });
  for (auto& t : threads)
    t.join();
  CHECK(fake().calls("cuDevicePrimaryCtxRetain") == 2);
}

TEST_CASE("the caller's context is current again after each call, errors included") {
  FreshFake fresh;
  const cuda::Driver& driver = cuda::driver();
  auto current = [&] {
    cuda::ContextHandle c = nullptr;
    driver.cuCtxGetCurrent(&c);
    return c;
  };
  CHECK(current() == nullptr);
  Buffer buffer(Device::cuda(0), 1000);
  CHECK(current() == nullptr);
  cuda::ContextHandle theirs = cuda::DeviceState::get(1).context();
  driver.cuCtxPushCurrent(theirs);
  {
    Stream stream(Device::cuda(0));
    copy(stream, buffer.data(), std::vector<char>(1000).data(), 0);
    fake().fail("cuMemsetD8Async", 1, 1);
    CHECK_THROWS_AS(fill_bytes(stream, buffer.data(), 0, 1000), TargetError);
    stream.synchronize();
    CHECK(current() == theirs);
    // For the same device, nothing is pushed.
    auto pushes = fake().calls("cuCtxPushCurrent");
    Stream same(Device::cuda(1));
    CHECK(fake().calls("cuCtxPushCurrent") == pushes);
    // For two devices, scopes nest.
    cuda::Current outer(cuda::DeviceState::get(0));
    {
      cuda::Current inner(cuda::DeviceState::get(1));
      CHECK(current() == theirs);
    }
    CHECK(current() == cuda::DeviceState::get(0).context());
  }
  CHECK(current() == theirs);
  driver.cuCtxPopCurrent(&theirs);
}

TEST_CASE("in a forked child, using CUDA is an error") {
  FreshFake fresh;
  Buffer buffer(Device::cuda(0), 1000);
  Stream stream(Device::cuda(0));
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    std::string text = error_of<UserError>([&] { Buffer(Device::cuda(0), 10); }) + "\n" +
                       error_of<UserError>([&] { stream.synchronize(); }) + "\n";
    {
      Buffer dies_here = std::move(buffer);
    } // without an error
    [[maybe_unused]] auto n = write(pipe_ends[1], text.data(), text.size());
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string text;
  char chunk[1024];
  for (ssize_t n; (n = read(pipe_ends[0], chunk, sizeof chunk)) > 0;)
    text.append(chunk, static_cast<std::size_t>(n));
  int status = 0;
  waitpid(child, &status, 0);
  std::string why =
      "CUDA was opened before this process was forked, and does not work in the child; start the "
      "child by exec, or fork before the first use of a CUDA device\n";
  CHECK(text == why + why);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  close(pipe_ends[0]);
}
