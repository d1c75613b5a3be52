// Tests launches on CUDA streams: what reaches the driver, and which errors are found before.
#include "cuda_test.h"
#include "test_seed.h"

#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/cuda/launch.h>

using namespace kiln;
using namespace kiln::test;

namespace {

const SourceLocation site("site.cpp", 7);

struct Shape {
  cuda::Size3 grid = {};
  cuda::Size3 block = {128, 1, 1};
  std::int64_t shared_bytes = 0;
  cuda::LaunchAttributes attributes = {};
};

void launch_idle(Stream& stream, const cuda::Function& f, const Shape& s) {
  std::uint64_t number = 42;
  void* arguments[] = {&number};
  cuda::launch(stream, f, s.grid, s.block, s.shared_bytes, arguments, s.attributes, site);
}

void add_one(Stream& stream, const cuda::Function& f, Buffer& buffer) {
  auto pointer = reinterpret_cast<std::uint64_t>(buffer.data());
  auto count = static_cast<std::uint64_t>(buffer.size()) / sizeof(float);
  void* arguments[] = {&pointer, &count};
  cuda::launch(stream, f, {static_cast<std::int64_t>(count + 127) / 128, 1, 1}, {128, 1, 1}, 0, arguments, {},
               site);
}

} // namespace

TEST_CASE("a launch reaches the driver with its sizes and arguments") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  auto f = load(0, "idle");
  launch_idle(stream, f, {{3, 4, 5}, {32, 2, 4}, 1000, {}});
  stream.synchronize();
  REQUIRE(fake().launch_count() == 1);
  FakeLaunch l = fake().last_launch();
  CHECK(l.kernel == std::string("idle"));
  CHECK(l.entry_point ==
        std::string(fake().calls("cuLaunchKernelEx") ? "cuLaunchKernelEx" : "cuLaunchKernel"));
  CHECK(l.stream == stream.cuda_handle());
  CHECK((l.grid[0] == 3 && l.grid[1] == 4 && l.grid[2] == 5));
  CHECK((l.block[0] == 32 && l.block[1] == 2 && l.block[2] == 4));
  CHECK(l.shared_bytes == 1000);
  CHECK(l.cluster[0] == 0);
  CHECK_FALSE(l.cooperative);
  CHECK(l.argument_count == 1);
  CHECK(l.arguments[0] == 42);
}

TEST_CASE("a kernel sees the results of copies before it, and copies after it see its results") {
  FreshFake fresh;
  std::uint64_t seed = test::fresh_seed();
  INFO("seed " << seed);
  auto x = random_floats(1000, seed);
  std::vector<float> y(1000), expected = x;
  for (float& v : expected)
    v += 2;
  Stream stream(Device::cuda(0));
  auto f = load(0);
  Buffer b(Device::cuda(0), 4000);
  copy(stream, b.data(), x.data(), 4000);
  add_one(stream, f, b);
  add_one(stream, f, b);
  copy(stream, y.data(), b.data(), 4000);
  stream.synchronize();
  CHECK(y == expected);
}

TEST_CASE("clusters and cooperative launches are attributes") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  auto f = load(0, "idle");
  launch_idle(stream, f, {{8, 2, 1}, {128, 1, 1}, 0, {.cluster = {4, 2, 1}, .cooperative = true}});
  stream.synchronize();
  FakeLaunch l = fake().last_launch();
  CHECK((l.cluster[0] == 4 && l.cluster[1] == 2 && l.cluster[2] == 1));
  CHECK(l.cooperative);
  auto opted = fake().calls("cuFuncSetAttribute");
  // Opts in to more than 8 blocks.
  launch_idle(stream, f, {{16, 1, 1}, {128, 1, 1}, 0, {.cluster = {16, 1, 1}}});
  launch_idle(stream, f, {{32, 1, 1}, {128, 1, 1}, 0, {.cluster = {16, 1, 1}}});
  stream.synchronize();
  CHECK(fake().last_launch().cluster[0] == 16);
  CHECK(fake().calls("cuFuncSetAttribute") == opted + 1);
}

TEST_CASE("large shared memory is opted in to once") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  auto f = load(0, "idle", "shared=1024");
  launch_idle(stream, f, {{1, 1, 1}, {128, 1, 1}, 47 << 10, {}});
  CHECK(fake().calls("cuFuncSetAttribute") == 0);
  launch_idle(stream, f, {{1, 1, 1}, {128, 1, 1}, 100 << 10, {}});
  launch_idle(stream, f, {{1, 1, 1}, {128, 1, 1}, 100 << 10, {}});
  launch_idle(stream, f, {{1, 1, 1}, {128, 1, 1}, 90 << 10, {}});
  CHECK(fake().calls("cuFuncSetAttribute") == 1);
  launch_idle(stream, f, {{1, 1, 1}, {128, 1, 1}, 226 << 10, {}});
  CHECK(fake().calls("cuFuncSetAttribute") == 2);
  stream.synchronize();
  CHECK(fake().launch_count() == 5);
}

TEST_CASE("an empty grid launches nothing") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  launch_idle(stream, load(0, "idle"), {{0, 4, 5}, {128, 1, 1}, 0, {}});
  stream.synchronize();
  CHECK(fake().launch_count() == 0);
}

TEST_CASE("a launch beyond a limit is a user error with the numbers, and launches nothing") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  auto f = load(0, "idle", "regs=168 maxthreads=384 shared=1024");
  auto refused = [&](const Shape& s) { return error_of<UserError>([&] { launch_idle(stream, f, s); }); };
  std::string start = "site.cpp:7: kernel \"idle\" on cuda:0: ";
  CHECK(refused({{3000000000, 1, 1}}) == start + "the grid is 3000000000 x 1 x 1 blocks, and the device "
                                                 "takes 2147483647 x 65535 x 65535 at most; use "
                                                 "larger tiles, or launch parts");
  CHECK(refused({{1, 65536, 1}}) ==
        start + "the grid is 1 x 65536 x 1 blocks, and the device takes 2147483647 x 65535 "
                "x 65535 at most; use larger tiles, or launch parts");
  CHECK(refused({{1, 1, -1}}) == start + "the grid is 1 x 1 x -1; its sizes must not be negative");
  CHECK(refused({{1, 1, 1}, {0, 1, 1}}) ==
        start +
            "a block is 0 x 1 x 1 threads, and the device takes from 1 to 1024 x 1024 x 64; use fewer warps");
  CHECK(
      refused({{1, 1, 1}, {1, 1, 65}}) ==
      start +
          "a block is 1 x 1 x 65 threads, and the device takes from 1 to 1024 x 1024 x 64; use fewer warps");
  CHECK(refused({{1, 1, 1}, {1024, 2, 1}}) ==
        start + "a block has 2048 threads, and the device takes 1024; use fewer warps");
  CHECK(refused({{1, 1, 1}, {512, 1, 1}}) == start + "a block has 512 threads, and with its 168 registers "
                                                     "the kernel runs with 384 at most; use fewer warps "
                                                     "or smaller tiles");
  CHECK(refused({{1, 1, 1}, {128, 1, 1}, 227 << 10}) ==
        start + "a block needs 232448 bytes of dynamic shared memory in addition to 1024 static ones, and "
                "the device "
                "has 232448 "
                "for a block; use smaller tiles or fewer stages");
  CHECK(refused({{1, 1, 1}, {128, 1, 1}, 0, {.cluster = {32, 1, 1}}}) ==
        start + "a cluster is 32 x 1 x 1 blocks, and it may have from 1 to 16; use a smaller one");
  CHECK(refused({{4, 1, 1}, {128, 1, 1}, 0, {.cluster = {0, 1, 1}}}) ==
        start + "a cluster is 0 x 1 x 1 blocks, and it may have from 1 to 16; use a smaller one");
  CHECK(refused({{5, 1, 1}, {128, 1, 1}, 0, {.cluster = {2, 1, 1}}}) ==
        start + "the grid is 5 x 1 x 1 blocks, which clusters of 2 x 1 x 1 do not divide; round the grid up, "
                "or use a "
                "smaller cluster");
  CHECK(refused({{5000, 1, 1}, {128, 1, 1}, 0, {.cooperative = true}}) ==
        start + "it is launched cooperatively with a grid of 5000 x 1 x 1 blocks, and 2112 run at once on "
                "the device; "
                "use a smaller grid");
  CHECK(refused({{2147483647, 65535, 65535}, {128, 1, 1}, 0, {.cooperative = true}}) ==
        start + "it is launched cooperatively with a grid of 2147483647 x 65535 x 65535 blocks, and 2112 run "
                "at once "
                "on the device; use a smaller grid");
  Stream other(Device::cuda(1)), cpu;
  CHECK(error_of<UserError>([&] { launch_idle(other, f, {}); }) ==
        start + "it is launched on a stream of cuda:1; load it there, or use a stream of its own device");
  CHECK(error_of<UserError>([&] { launch_idle(cpu, f, {}); }) ==
        "a stream of cpu is used where one of a CUDA device is needed; make it with "
        "Stream(Device::cuda(index))");
  stream.synchronize();
  CHECK(fake().launch_count() == 0);
  CHECK(fake().calls("cuLaunchKernelEx") == 0);
}

TEST_CASE("clusters or cooperative launches on a device without them are an error that says so") {
  FreshFake fresh;
  fake().set("sm", 80);
  fake().set("cooperative", 0);
  auto f = load(2, "idle");
  Stream stream(Device::cuda(2));
  CHECK(error_of<UserError>([&] {
          launch_idle(stream, f, {{2, 1, 1}, {128, 1, 1}, 0, {.cluster = {2, 1, 1}}});
        }) == "site.cpp:7: kernel \"idle\" on cuda:2: it is launched in clusters of 2 x 1 x 1 blocks, which "
              "sm_80 does not "
              "have; use a cluster of 1");
  CHECK(error_of<UserError>([&] {
          launch_idle(stream, f, {{2, 1, 1}, {128, 1, 1}, 0, {.cooperative = true}});
        }) == "site.cpp:7: kernel \"idle\" on cuda:2: it is launched cooperatively, which the device does "
              "not support; "
              "launch it otherwise");
}

TEST_CASE("if the driver rejects a launch, only that launch fails") {
  FreshFake fresh;
  Stream stream(Device::cuda(0));
  auto f = load(0, "idle");
  fake().fail("cuLaunchKernelEx", 1, 701);
  CHECK(error_of<UserError>([&] { launch_idle(stream, f, {}); }) ==
        "site.cpp:7: kernel \"idle\" on cuda:0: the device has too few registers or too little memory for a "
        "block of "
        "128 threads and 0 bytes of shared memory; use fewer warps or smaller tiles");
  fake().fail("cuLaunchKernelEx", 1, 1);
  CHECK(error_of<TargetError>([&] { launch_idle(stream, f, {}); }) ==
        "cuda:0: the launch of kernel idle: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  launch_idle(stream, f, {});
  stream.synchronize();
  CHECK(fake().launch_count() == 1);
}

// --- Graphs ------------------------------------------------------------------------------------------------

TEST_CASE("a captured graph runs each time it is launched") {
  std::string error, line;
  FreshFake fresh;
  Buffer::trim();
  auto before = alive();
  {
    const std::uint64_t seed = test::fresh_seed();
    INFO("seed " << seed);
    auto x = random_floats(300, seed);
    std::vector<float> y(300), expected = x;
    for (float& v : expected)
      v += 6;
    Stream stream(Device::cuda(0));
    auto f = load(0);
    Buffer b(Device::cuda(0), 1200);
    cuda::GraphCapture capture(stream);
    add_one(stream, f, b);
    add_one(stream, f, b);
    cuda::Graph graph = capture.end();
    CHECK(graph.size() == 2);
    stream.synchronize();
    CHECK(fake().launch_count() == 0);
    copy(stream, b.data(), x.data(), 1200);
    for (int i = 0; i < 3; ++i)
      graph.launch(stream);
    copy(stream, y.data(), b.data(), 1200);
    stream.synchronize();
    CHECK(fake().launch_count() == 6);
    CHECK(y == expected);
    cuda::Graph moved = std::move(graph);
    error = error_of<UserError>([&] { graph.launch(stream); });
    line = KILN_HERE(-1);
    CHECK(error == line + ": launch of an empty graph; capture one first");
    Stream other(Device::cuda(1));
    error = error_of<UserError>([&] { moved.launch(other); });
    line = KILN_HERE(-1);
    CHECK(error ==
          line + ": a graph of cuda:0 is launched on a stream of cuda:1; use a stream of its own device");
    CHECK(error_of<UserError>([&] { capture.end(); }) ==
          "end() of a graph's capture that has ended; capture again");
  }
  Buffer::trim();
  CHECK(alive() == before);
}

TEST_CASE("while a graph is captured, nothing can be waited for") {
  std::string error, line;
  FreshFake fresh;
  auto before = alive();
  {
    Stream stream(Device::cuda(0)), cpu;
    Stream legacy = Stream::adopt(Device::cuda(0), nullptr);
    auto f = load(0, "idle");
    {
      cuda::GraphCapture capture(stream);
      CHECK(error_of<UserError>([&] { stream.synchronize(); }) ==
            "synchronize on a stream of cuda:0 that a graph is being captured from, where nothing runs; end "
            "the "
            "capture before");
      CHECK(error_of<UserError>([&] { stream.clear_error(); }) ==
            "clear_error on a stream of cuda:0 that a graph is being captured from, where nothing runs; end "
            "the "
            "capture before");
      CHECK(error_of<UserError>([&] { stream.host_function([](void*) {}, nullptr); }) ==
            "a host function on a stream of cuda:0 that a graph is being captured from, where nothing runs; "
            "end the "
            "capture before");
      error = error_of<UserError>([&] { cuda::GraphCapture(stream, std::source_location::current()); });
      line = KILN_HERE(-1);
      CHECK(error ==
            line + ": a graph is already being captured from this stream of cuda:0; end that capture first");
      Buffer allocated(Device::cuda(0), 100); // allocating still works
      launch_idle(stream, f, {});
    } // the capture is discarded
    stream.synchronize();
    CHECK(fake().launch_count() == 0);
    error = error_of<UserError>([&] { cuda::GraphCapture(legacy, std::source_location::current()); });
    line = KILN_HERE(-1);
    CHECK(error ==
          line +
              ": a graph cannot be captured from the default stream of cuda:0; capture from another stream");
    CHECK(error_of<UserError>([&] { cuda::GraphCapture(cpu, std::source_location::current()); }) ==
          "a stream of cpu is used where one of a CUDA device is needed; make it with "
          "Stream(Device::cuda(index))");
    fake().fail("cuGraphInstantiateWithFlags", 1, 1);
    cuda::GraphCapture capture(stream);
    CHECK(error_of<TargetError>([&] { capture.end(); }) ==
          "cuda:0: cuGraphInstantiateWithFlags: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  }
  Buffer::trim();
  CHECK(alive() == before);
}

// --- A driver with fewer functions -------------------------------------------------------------------------

TEST_CASE("buffers and launches on a driver without pools and cuLaunchKernelEx", "[.old]") {
  CHECK_FALSE(cuda::driver().cuLaunchKernelEx);
  auto x = random_floats(100, 3);
  std::vector<float> y(100), expected = x;
  for (float& v : expected)
    v += 1;
  Stream stream(Device::cuda(0));
  {
    auto f = load(0), idle = load(0, "idle");
    Buffer b(Device::cuda(0), 400);
    copy(stream, b.data(), x.data(), 400);
    add_one(stream, f, b);
    CHECK(error_of<UserError>(
              [&] { launch_idle(stream, idle, {{2, 1, 1}, {128, 1, 1}, 0, {.cluster = {2, 1, 1}}}); }) ==
          "site.cpp:7: kernel \"idle\" on cuda:0: it is launched in clusters, and the NVIDIA driver lacks "
          "cuLaunchKernelEx; update the driver");
    launch_idle(stream, idle, {{2, 1, 1}, {128, 1, 1}, 0, {.cooperative = true}});
    copy(stream, y.data(), b.data(), 400);
    stream.synchronize();
    CHECK(fake().last_launch().entry_point == std::string("cuLaunchCooperativeKernel"));
    CHECK(fake().last_launch().cooperative);
    CHECK(y == expected);
  }
  Buffer::trim();
  CHECK(fake().live("memory") == 0);
}

TEST_CASE("a program on an older driver") {
  int code = 0;
  std::string output = run_again("[.old]", {std::string("KILN_CUDA_LIBRARY=") + FAKE_CUDA_OLD_LIBRARY}, code);
  INFO(output);
  CHECK(code == 0);
  CHECK(output.find("1 test case") != std::string::npos);
}
