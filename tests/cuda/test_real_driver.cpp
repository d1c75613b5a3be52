// Tests the CUDA runtime with the driver and GPU of this machine. Skipped if there is none.
#include "cuda_test.h"
#include "test_seed.h"

#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/cuda/launch.h>
#include <kiln/jit/runtime/cuda/memory.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// `add_one` computes x[i] += 1 for i < n; `trap` stores to an address that is not mapped.
constexpr const char* real_ptx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 p, .param .u64 n)
{
  .reg .pred %out;
  .reg .b32 %block, %threads, %thread, %i;
  .reg .b64 %x, %count, %index, %offset;
  .reg .f32 %v;
  ld.param.u64 %x, [p];
  ld.param.u64 %count, [n];
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.s32 %i, %block, %threads, %thread;
  cvt.u64.u32 %index, %i;
  setp.ge.u64 %out, %index, %count;
  @%out bra done;
  cvta.to.global.u64 %x, %x;
  shl.b64 %offset, %index, 2;
  add.s64 %x, %x, %offset;
  ld.global.f32 %v, [%x];
  add.f32 %v, %v, 0f3F800000;
  st.global.f32 [%x], %v;
done:
  ret;
}
.visible .entry stray()
{
  .reg .b64 %x;
  mov.u64 %x, 16;
  st.global.u64 [%x], %x;
  ret;
}
)";

const SourceLocation site("site.cpp", 7);

void add_one(Stream& stream, const cuda::Function& f, Buffer& b,
             const cuda::LaunchAttributes& attributes = {}) {
  auto pointer = reinterpret_cast<std::uint64_t>(b.data());
  auto count = static_cast<std::uint64_t>(b.size()) / sizeof(float);
  void* arguments[] = {&pointer, &count};
  cuda::launch(stream, f, {static_cast<std::int64_t>(count + 1023) / 1024 * 4, 1, 1}, {256, 1, 1}, 0,
               arguments, attributes, site);
}

} // namespace

TEST_CASE("buffers, copies, events, launches and graphs on a GPU", "[.gpu]") {
  if (!cuda::available()) {
    WARN("skipped: " << cuda::available().reason);
    return;
  }
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  auto& state = cuda::DeviceState::get(0);
  Device device = Device::cuda(0);
  std::size_t n = 10003;
  auto bytes = static_cast<std::int64_t>(n * sizeof(float));
  auto x = random_floats(n, seed), expected = x;
  {
    Stream stream(device);
    Event begin, end;
    Buffer a(device, bytes), b(device, bytes);
    cuda::PinnedBuffer pinned(state, bytes);
    std::string cubin = cuda::assemble(state, real_ptx, "add_one");
    auto f = cuda::Module::load(state, cubin, "add_one")->function("add_one");
    auto from_ptx = cuda::Module::load(state, real_ptx, "add_one")->function("add_one");
    CHECK(f.info().registers > 0);
    CHECK(f.info().local_bytes == 0);
    begin.record(stream);
    copy(stream, a.data(), x.data(), bytes);
    add_one(stream, f, a);
    add_one(stream, from_ptx, a);
    if (device.properties().sm >= 90) add_one(stream, f, a, {.cluster = {4, 1, 1}});
    add_one(stream, f, a, {.cooperative = true});
    copy(stream, b.data(), a.data(), bytes);
    copy(stream, pinned.data(), b.data(), bytes);
    end.record(stream);
    end.synchronize();
    CHECK(end.elapsed_ms(begin) > 0);
    for (float& v : expected)
      v += device.properties().sm >= 90 ? 4 : 3;
    auto* seen = static_cast<const float*>(pinned.data());
    CHECK(std::vector<float>(seen, seen + n) == expected);

    cuda::GraphCapture capture(stream);
    add_one(stream, f, b);
    add_one(stream, f, b);
    cuda::Graph graph = capture.end();
    CHECK(graph.size() == 2);
    for (int i = 0; i < 5; ++i)
      graph.launch(stream);
    copy(stream, pinned.data(), b.data(), bytes);
    int called = 0;
    stream.host_function([](void* p) { ++*static_cast<int*>(p); }, &called);
    stream.synchronize();
    CHECK(called == 1);
    for (float& v : expected)
      v += 10;
    CHECK(std::vector<float>(seen, seen + n) == expected);
    CHECK(cuda::device_of_pointer(b.data()) == 0);
    CHECK(cuda::device_of_pointer(x.data()) == -1);
    CHECK(error_of<UserError>([&] {
            Buffer(device, std::int64_t{1} << 50);
          }).find("no memory for a Buffer") != std::string::npos);
  }
}

TEST_CASE("after an access out of bounds, every call on the GPU reports it", "[.gpu_lost]") {
  if (!cuda::available()) {
    WARN("skipped: " << cuda::available().reason);
    return;
  }
  auto& state = cuda::DeviceState::get(0);
  Device device = Device::cuda(0);
  auto stray = cuda::Module::load(state, real_ptx, "stray")->function("stray");
  Stream stream(device);
  cuda::launch(stream, stray, {}, {}, 0, nullptr, {}, site);
  std::string text = error_of<TargetError>([&] { stream.synchronize(); });
  CHECK(text.starts_with(
      "cuda:0 failed in kernel \"stray\", launched at site.cpp:7: CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(error_of<TargetError>([&] { Buffer(device, 10); }) == text);
}

TEST_CASE("the driver and GPU of this machine, in processes that may lose the GPU") {
  for (const char* tests : {"[gpu]", "[.gpu_lost]"}) {
    int code = 0;
    std::string output = run_again(tests, {"KILN_CUDA_LIBRARY=libcuda.so.1"}, code);
    INFO(output);
    if (auto skipped = output.find("skipped: "); skipped != std::string::npos)
      WARN(output.substr(skipped, output.find('\n', skipped) - skipped));
    CHECK(code == 0);
  }
}
