// Tests errors between a kernel and its launch on a CUDA device, and their messages.
#include "played.h"

#include <kiln/jit/base/log.h>

#include <fstream>
#include <sstream>

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

constexpr int out_of_memory = 2;

auto make_shift(float by) {
  return kernel("shift", [by](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(x.tile(i).load() + by);
  });
}
const std::string made = KILN_HERE(-5);

// Reads a file that a Played has kept.
std::string kept(const Played& played, const std::string& suffix) {
  for (const auto& entry : fs::directory_iterator(played.folder()))
    if (entry.path().extension() == suffix) {
      std::ifstream in(entry.path(), std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      return text.str();
    }
  return "";
}

} // namespace

TEST_CASE("a device gets code for its compute capability") {
  FreshFake fresh;
  struct Row {
    int device, sm;
    std::string target, version;
  };
  auto shift = make_shift(1);
  for (const Row& row : {Row{17, 80, "sm_80", "7.0"}, Row{18, 86, "sm_80", "7.0"},
                         Row{19, 90, "sm_90a", "8.0"}, Row{20, 120, "sm_80", "7.0"}}) {
    fake().set("sm", row.sm);
    Played played;
    Buffer b(Device::cuda(row.device), 40);
    auto* x = static_cast<float*>(b.data());
    std::fill_n(x, 10, 1.0f);
    Stream stream(Device::cuda(row.device));
    shift.launch(stream, {BN = 16}, TensorView<float, 1>(x, {10}));
    stream.synchronize();
    CHECK(x[9] == 2);
    CHECK(kept(played, ".ptx").find("\n.version " + row.version + "\n.target " + row.target + "\n") !=
          std::string::npos);
    CHECK(kept(played, ".cubin") == "\x7f"
                                    "ELFFAKE " +
                                        kept(played, ".ptx"));
  }
}

TEST_CASE("a device that is too old, or has a driver that is too old, is an error that says so") {
  FreshFake fresh;
  auto shift = make_shift(2);
  fake().set("sm", 75);
  CHECK(error_of<UserError>([&] { shift.warm_up(Device::cuda(21), {BN = 16}); }) ==
        made +
            ": kernel shift: kernels run on NVIDIA GPUs of compute capability 8.0 or newer, and this one has "
            "7.5; use Device::cpu()");
  fake().set("sm", 100); // its PTX has version 8.6
  CHECK(
      error_of<UserError>([&] { shift.warm_up(Device::cuda(22), {BN = 16}); }) ==
      made +
          ": kernel \"shift\" on cuda:22: its PTX is of version 8.6, and the NVIDIA driver (CUDA 12.4) reads "
          "PTX up to 8.4; update the driver to one for CUDA 12.7 or newer");
}

TEST_CASE("tiles that need more shared memory than a block has are a user error with both numbers") {
  FreshFake fresh;
  const auto product =
      kernel("product", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        auto [m, n] = program_tile(c, BM, BN);
        auto k = offset(BK, 0);
        c.tile(m, n).store(dot(a.tile(m, k).load(), b.tile(k, n).load()));
      });
  std::string text =
      error_of<UserError>([&] { product.warm_up(Device::cuda(0), {BM = 256, BN = 256, BK = 256}); });
  INFO(text);
  CHECK(text.find("kernel product: its tiles need 524288 bytes of shared memory, and a block on sm_90a has "
                  "232448; choose smaller tiles") != std::string::npos);
}

TEST_CASE("if the driver fails midway, that launch fails and the next one works") {
  FreshFake fresh;
  Device device = Device::cuda(0);
  Stream stream(device);
  Buffer b(device, 40);
  TensorView<float, 1> x(static_cast<float*>(b.data()), {10});
  struct Row {
    const char* call;
    int code;
    std::string what;
  };
  float number = 10;
  for (const Row& row :
       {Row{"cuLinkCreate", out_of_memory, "cuda:0: cuLinkCreate: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"},
        Row{"cuModuleLoadDataEx", out_of_memory,
            "kernel \"shift\" on cuda:0 (sm_90): cuModuleLoadDataEx: CUDA_ERROR_OUT_OF_MEMORY (out of "
            "memory)"},
        Row{"cuModuleGetFunction", 999, "cuda:0: cuModuleGetFunction: CUDA_ERROR_UNKNOWN (unknown error)"},
        Row{"cuFuncGetAttribute", 999, "cuda:0: cuFuncGetAttribute: CUDA_ERROR_UNKNOWN (unknown error)"},
        Row{"cuLaunchKernelEx", 1,
            "cuda:0: the launch of kernel shift: CUDA_ERROR_INVALID_VALUE (invalid "
            "argument)"}}) {
    Options o = options(); // the rejected image goes to a folder of the test
    o.keep_dir = (fs::temp_directory_path() / ("kiln-errors-" + std::to_string(getpid()))).string();
    ScopedOptions scoped(o);
    auto shift = make_shift(number += 1);
    fake().fail(row.call, 1, row.code);
    auto launch = [&] { shift.launch(stream, {BN = 16}, x); };
    std::string text = error_of<TargetError>(launch);
    INFO(text);
    CHECK(text.starts_with(row.what));
    int launched = fake().launch_count();
    launch();
    stream.synchronize();
    CHECK(fake().launch_count() == launched + 1);
    fs::remove_all(o.keep_dir);
  }
}

TEST_CASE("a failed device_assert names the kernel and its launch, and the device is lost") {
  FreshFake fresh;
  Played played(true);
  LogCapture quiet;
  const auto checked = kernel("checked", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    auto v = x.tile(i).load();
    device_assert(v >= 0.0f, "x is not negative");
    x.tile(i).store(v * 2);
  });
  Device device = Device::cuda(8);
  Stream stream(device);
  Buffer b(device, 40);
  auto* x = static_cast<float*>(b.data());
  std::fill_n(x, 10, 1.0f);
  TensorView<float, 1> view(x, {10});
  checked.launch(stream, {BN = 4}, view); // under KILN_DEBUG a launch waits
  CHECK(x[9] == 2);
  x[7] = -1;
  const std::string here = KILN_HERE(1);
  std::string text = error_of<TargetError>([&] { checked.launch(stream, {BN = 4}, view); });
  CHECK(text ==
        "cuda:8 failed in kernel \"checked\", launched at " + here +
            ": CUDA_ERROR_ASSERT (device-side assert triggered), found by Stream::synchronize; the device "
            "cannot be used again in this process; run with KILN_DEBUG=1, which checks indices and waits "
            "for each launch");
  CHECK(error_of<TargetError>([&] { checked.launch(stream, {BN = 4}, view); }) == text);
  CHECK(error_of<TargetError>([&] { make_shift(3).launch(stream, {BN = 4}, view); }) == text);
  CHECK(error_of<TargetError>([&] { assign(stream, view, 0); }) == text);
  Stream other(Device::cuda(0)); // another device still works
  Buffer c(Device::cuda(0), 40);
  auto* y = static_cast<float*>(c.data());
  std::fill_n(y, 10, 1.0f);
  checked.launch(other, {BN = 4}, TensorView<float, 1>(y, {10}));
  CHECK(y[9] == 2);
}

TEST_CASE("more parameters than a GPU accepts are a user error") {
  FreshFake fresh;
  using V = View<const double, 8>;
  const auto wide =
      kernel("wide", [](V a, V b, V c, V d, V e, V f, V g, V h, V i, V j, V k, V l, V m, V n, V o, V p, V q,
                        V r, V s, V t, V u, V v, V w, V x, V y, V z, V a1, V b1, V c1, V d1, V e1,
                        View<double, 8> out) { raw::store(out.data(), 1.0); });
  std::string text = error_of<UserError>([&] { wide.warm_up(Device::cuda(0), {}); });
  INFO(text);
  CHECK(text.ends_with(
      ": kernel wide: its parameters take 4384 bytes, and a GPU takes 4352; pass fewer views and "
      "scalars"));
}
