// Tests memory of CUDA devices: buffers, tensors, pinned memory and copies.
#include "cuda_test.h"
#include "test_seed.h"

#include <kiln/jit/runtime/cuda/memory.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// A device, with one of the two kinds of allocator.
struct Way {
  const char* name;
  int device;
};
// Device 3 has no memory pools.
Way ways[] = {{"pools", 0}, {"a cache", 3}};

void choose(const Way& way) {
  fake().set("pools", way.device != 3);
  cuda::DeviceState::get(way.device).allocator();
  fake().set("pools", 1);
}

} // namespace

TEST_CASE("a buffer on a CUDA device holds what is copied into it") {
  FreshFake fresh;
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  for (const Way& way : ways) {
    INFO(way.name);
    choose(way);
    Buffer::trim();
    auto before = alive();
    {
      Device device = Device::cuda(way.device);
      Stream stream(device);
      std::mt19937_64 random(seed);
      for (int round = 0; round < 20; ++round) {
        auto x = random_floats(1 + random() % 5000, random());
        auto bytes = static_cast<std::int64_t>(x.size() * sizeof(float));
        Buffer a(device, bytes), b(device, bytes);
        CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 256 == 0);
        CHECK(a.device() == device);
        std::vector<float> y(x.size());
        copy(stream, a.data(), x.data(), bytes);
        copy(stream, b.data(), a.data(), bytes);
        copy(stream, y.data(), b.data(), bytes);
        stream.synchronize();
        REQUIRE(x == y);
        fill_bytes(stream, b.data(), 0, bytes);
        copy(stream, y.data(), b.data(), bytes);
        stream.synchronize();
        REQUIRE(y == std::vector<float>(x.size()));
      }
    }
    Buffer::trim();
    CHECK(Buffer::cached_bytes() == 0);
    CHECK(alive() == before);
  }
}

TEST_CASE("a copy goes between devices") {
  FreshFake fresh;
  const std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  auto x = random_floats(1000, seed);
  std::vector<float> y(1000);
  Buffer a(Device::cuda(0), 4000), b(Device::cuda(1), 4000);
  Stream first(Device::cuda(0)), second(Device::cuda(1));
  copy(first, a.data(), x.data(), 4000);
  copy(first, b.data(), a.data(), 4000);
  first.synchronize();
  copy(second, y.data(), b.data(), 4000);
  second.synchronize();
  CHECK(x == y);
}

TEST_CASE("freed memory is reused, and trim returns it to the driver") {
  FreshFake fresh;
  choose(ways[1]);
  Buffer::trim();
  auto calls = fake().calls("cuMemAlloc");
  void* first = nullptr;
  {
    Buffer a(Device::cuda(3), 100000);
    first = a.data();
  }
  CHECK(Buffer::cached_bytes() >= 100000);
  {
    Buffer again(Device::cuda(3), 99000);
    CHECK(again.data() == first);
    CHECK(fake().calls("cuMemAlloc") == calls + 1);
  }
  Buffer::trim();
  CHECK(Buffer::cached_bytes() == 0);
  {
    Buffer pooled(Device::cuda(0), 1 << 20);
  }
  cuda::DeviceState::get(0).allocator().memory(); // calls the driver, as cached_bytes does
  Stream::default_stream(Device::cuda(0)).synchronize();
  Buffer::trim();
  CHECK(Buffer::cached_bytes() == 0);
}

TEST_CASE("if there is no memory left, kept memory is returned first, and then the error has the numbers") {
  std::string error, line;
  FreshFake fresh;
  for (const Way& way : ways) {
    INFO(way.name);
    choose(way);
    Buffer::trim();
    Device device = Device::cuda(way.device);
    fake().set("memory_bytes", 64 << 20);
    {
      Buffer a(device, 40 << 20);
    }
    // 40 MiB are kept in another size class, so there is room only after a trim.
    Buffer b(device, 48 << 20);
    error = error_of<UserError>([&] { Buffer(device, 32 << 20); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": no memory for a Buffer of 33554432 bytes on " + to_string(device) +
                       ", which has 16777216 free of "
                       "67108864; free other buffers or use a smaller one");
    CHECK(error_of<UserError>([&] { Buffer(device, std::int64_t{1} << 62 | 1); })
              .find("no memory for a Buffer of "
                    "4611686018427387905 bytes on ") != std::string::npos);
    error = error_of<UserError>([&] { Buffer(device, -1); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": Buffer of -1 bytes; the size must not be negative");
    CHECK(Buffer(device, 0).data() == nullptr);
  }
}

TEST_CASE("a driver that fails to allocate is a target error") {
  FreshFake fresh;
  choose(ways[0]);
  choose(ways[1]);
  Buffer::trim();
  fake().fail("cuMemAllocFromPoolAsync", 1, 999);
  CHECK(error_of<TargetError>([] { Buffer(Device::cuda(0), 512); }) ==
        "cuda:0: cuMemAllocFromPoolAsync of 512 bytes: CUDA_ERROR_UNKNOWN (unknown error)");
  fake().fail("cuMemAlloc", 1, 999);
  CHECK(error_of<TargetError>([] { Buffer(Device::cuda(3), 512); }) ==
        "cuda:3: cuMemAlloc of 512 bytes: CUDA_ERROR_UNKNOWN (unknown error)");
}

TEST_CASE("a driver that cannot create a pool is used without one") {
  FreshFake fresh;
  fake().fail("cuMemPoolCreate", 1, 801);
  Buffer a(Device::cuda(11), 512);
  CHECK(fake().calls("cuMemAlloc") == 1);
}

TEST_CASE("memory in the order of a stream") {
  FreshFake fresh;
  for (const Way& way : ways) {
    INFO(way.name);
    choose(way);
    Buffer::trim();
    auto before = alive();
    {
      Stream stream(Device::cuda(way.device));
      cuda::Queue& queue = cuda::queue_of(stream);
      cuda::Allocator& allocator = queue.device().allocator();
      auto x = random_floats(500, 7);
      std::vector<float> y(500);
      cuda::DevicePointer p = allocator.allocate_async(queue, 2000);
      REQUIRE(p);
      queue.copy(reinterpret_cast<void*>(p), x.data(), 2000);
      queue.copy(y.data(), reinterpret_cast<void*>(p), 2000);
      allocator.free_async(queue, p, 2000);
      stream.synchronize();
      CHECK(x == y);
    }
    Buffer::trim();
    CHECK(alive() == before);
  }
}

TEST_CASE("a buffer that is destroyed in a host function is freed later") {
  FreshFake fresh;
  Buffer::trim();
  auto before = fake().live("memory");
  {
    Stream stream(Device::cuda(0));
    auto* buffer = new Buffer(Device::cuda(0), 1000);
    stream.host_function([](void* b) { delete static_cast<Buffer*>(b); }, buffer);
    stream.synchronize();
    CHECK(fake().live("memory") == before + 1);
  }
  Buffer::trim();
  CHECK(fake().live("memory") == before);
}

TEST_CASE("pinned memory") {
  std::string error, line;
  FreshFake fresh;
  auto& device = cuda::DeviceState::get(0);
  auto before = fake().live("pinned");
  {
    cuda::PinnedBuffer a(device, 1000), none(device, 0);
    CHECK(a.size() == 1000);
    CHECK(none.data() == nullptr);
    CHECK(fake().live("pinned") == before + 1);
    cuda::PinnedBuffer moved(std::move(a));
    CHECK(a.data() == nullptr);
    none = std::move(moved);
    CHECK(none.size() == 1000);
    Buffer b(Device::cuda(0), 1000);
    Stream stream(Device::cuda(0));
    fill_bytes(stream, b.data(), 17, 1000);
    copy(stream, none.data(), b.data(), 1000);
    stream.synchronize();
    CHECK(static_cast<char*>(none.data())[999] == 17);
  }
  CHECK(fake().live("pinned") == before);
  error = error_of<UserError>([&] { cuda::PinnedBuffer(device, -3); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": PinnedBuffer of -3 bytes; the size must not be negative");
  fake().fail("cuMemHostAlloc", 1, 2);
  error = error_of<UserError>([&] { cuda::PinnedBuffer(device, 5); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": no memory for a PinnedBuffer of 5 bytes; use a smaller one, or pageable memory");
  fake().fail("cuMemHostAlloc", 1, 999);
  CHECK(error_of<TargetError>([&] { cuda::PinnedBuffer(device, 5); }) ==
        "cuda:0: cuMemHostAlloc of 5 bytes: CUDA_ERROR_UNKNOWN (unknown error)");
}

TEST_CASE("a tensor on a CUDA device is zeroed and filled there") {
  FreshFake fresh;
  auto t = Tensor<double, 2>::zeros(Device::cuda(0), {3, 5});
  std::vector<double> host(15, 7.0);
  Stream stream(Device::cuda(0));
  copy(stream, host.data(), t.data(), 120);
  stream.synchronize();
  CHECK(host == std::vector<double>(15, 0.0));
  t.fill(2.5);
  copy(stream, host.data(), t.data(), 120);
  stream.synchronize();
  CHECK(host == std::vector<double>(15, 2.5));
  CHECK(Tensor<float, 1>::zeros(Device::cuda(0), {0}).size() == 0);
}

TEST_CASE("a tensor can be copied to a device and back") {
  FreshFake guard;
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  auto values = random_floats(6 * 7, seed);
  auto host = Tensor<float, 2>::empty({6, 7});
  std::copy(values.begin(), values.end(), host.begin());
  for (Device device : {Device::cpu(), Device::cuda(0), Device::cuda(1)}) {
    INFO(to_string(device));
    Tensor there = host.to(device);
    CHECK(there.device() == device);
    CHECK(there.extent(1) == 7);
    CHECK(there.data() != host.data());
    Tensor back = there.to(Device::cpu());
    CHECK(std::vector<float>(back.begin(), back.end()) == values);
  }
  CHECK(Tensor<float, 1>::empty({0}).to(Device::cuda(0)).size() == 0);
  CHECK(Device::parse("cuda") == Device::cuda(0));
  CHECK(Device::parse("cuda:1") == Device::cuda(1));
}

TEST_CASE("mistakes in copies are user errors at the caller's line") {
  std::string error, line;
  FreshFake fresh;
  std::vector<char> x(10);
  Buffer b(Device::cuda(0), 10);
  Stream gpu(Device::cuda(0)), cpu;
  for (Stream* s : {&gpu, &cpu}) {
    error = error_of<UserError>([&] { copy(*s, x.data(), x.data(), -1); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": copy of -1 bytes; the number must not be negative");
    error = error_of<UserError>([&] { copy(*s, nullptr, x.data(), 4); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": copy of 4 bytes: 'to' is null; pass memory");
    error = error_of<UserError>([&] { copy(*s, x.data(), nullptr, 4); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": copy of 4 bytes: 'from' is null; pass memory");
    error = error_of<UserError>([&] { fill_bytes(*s, nullptr, 0, 4); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": fill_bytes of 4 bytes: 'to' is null; pass memory");
    copy(*s, nullptr, nullptr, 0);
  }
  error = error_of<UserError>([&] { copy(cpu, x.data(), b.data(), 4); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": copy on a stream of the CPU: 'from' is memory of cuda:0; use a stream of cuda:0");
  error = error_of<UserError>([&] { copy(cpu, b.data(), x.data(), 4); });
  line = KILN_HERE(-1);
  CHECK(error == line + ": copy on a stream of the CPU: 'to' is memory of cuda:0; use a stream of cuda:0");
  error = error_of<UserError>([&] { fill_bytes(cpu, b.data(), 1, 4); });
  line = KILN_HERE(-1);
  CHECK(error ==
        line + ": fill_bytes on a stream of the CPU: 'to' is memory of cuda:0; use a stream of cuda:0");
  CHECK(error_of<TargetError>([&] { copy(gpu, b.data(), x.data(), 11); }) ==
        "cuda:0: a copy of 11 bytes: CUDA_ERROR_INVALID_VALUE (invalid argument)");
}

TEST_CASE("copies and fills on the CPU") {
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  for (std::size_t n : {1u, 1000u, 100000u}) {
    auto x = random_floats(n, seed);
    std::vector<float> y(n);
    auto bytes = static_cast<std::int64_t>(n * sizeof(float));
    Stream stream;
    copy(stream, y.data(), x.data(), bytes);
    fill_bytes(stream, x.data(), 0, bytes);
    stream.synchronize();
    CHECK(y == random_floats(n, seed));
    CHECK(x == std::vector<float>(n));
  }
}
