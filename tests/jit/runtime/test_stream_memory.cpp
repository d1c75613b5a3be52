// Tests memory that is freed in the order of a stream, and the parts of a workspace.
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/stream_memory.h>
#include <kiln/ops/detail/workspace.h>

#include <allocation_count.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

using namespace kiln;
using ops::Output;
using ops::detail::Workspace;

TEST_CASE("memory of a stream is freed after the commands that use it") {
  Stream stream;
  std::atomic<bool> go{false};
  struct Use {
    std::atomic<bool>* go;
    void* data;
  };
  StreamMemory memory(stream, 1 << 20, std::source_location::current());
  Use use{&go, memory.data()};
  stream.host_function(
      [](void* p) {
        const Use& u = *static_cast<Use*>(p);
        while (!*u.go)
          std::this_thread::yield();
        std::memset(u.data, 1, 1 << 20);
      },
      &use);
  memory.free();
  CHECK(memory.data() == nullptr);
  const Buffer other(Device::cpu(), 1 << 20); // would get the block if it were free
  CHECK(other.data() != use.data);
  go = true;
  stream.synchronize();
  const Buffer next(Device::cpu(), 1 << 20);
  CHECK(next.data() == use.data);
}

TEST_CASE("a stream with an error returns its memory") {
  Stream stream;
  Buffer::trim();
  const std::int64_t before = Buffer::cached_bytes();
  {
    StreamMemory memory(stream, 4096, std::source_location::current());
    stream.host_function([](void*) { throw UserError("planted"); }, nullptr);
    while (!stream.failed())
      std::this_thread::yield();
    CHECK_THROWS_AS(memory.free(), UserError);
    StreamMemory unused(stream, 4096, std::source_location::current());
  }
  CHECK(Buffer::cached_bytes() == before + 4096);
  stream.clear_error();
}

TEST_CASE("a workspace has aligned parts, and a warm call does not allocate") {
  Stream stream;
  const auto call = [&] {
    Workspace workspace({stream}, Workspace::bytes(DType::F32, 35) + Workspace::bytes(DType::I8, 3) +
                                      Workspace::bytes(DType::F64, 0));
    const Output a = workspace.take(DType::F32, {5, 7}), b = workspace.take(DType::I8, {3});
    const Output none = workspace.take(DType::F64, {0, 4});
    const auto address = [](const Output& x) { return reinterpret_cast<std::uintptr_t>(x.array().data); };
    bool right = address(a) % 256 == 0 && address(b) == address(a) + 256 && a.array().strides[0] == 7 &&
                 a.array().strides[1] == 1 && none.array().size() == 0;
    std::memset(a.array().data, 0, 35 * sizeof(float));
    workspace.free();
    return right;
  };
  CHECK(call());
  stream.synchronize();
  const long before = allocation_count();
  const bool right = call();
  stream.synchronize();
  CHECK(allocation_count() == before);
  CHECK(right);
  Workspace small({stream}, Workspace::bytes(DType::F32, 1));
  CHECK_THROWS_AS(small.take(DType::F32, {65}), InternalError);
}
