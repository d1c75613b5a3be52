// Registers a kernel and a command from a library, as a user of `kiln --load` would; check_cli.sh loads it.
#include <kiln/jit/cli/support/registry.h>
#include <kiln/kiln.h>

#include <cstdio>
#include <string_view>

using namespace kiln;

namespace {

KILN_DIM(BLOCK);

const auto& saxpy() {
  static const auto made = kernel("saxpy", [](Scalar<float> a, View<const float, 1> x, View<float, 1> y) {
    expects(x.extent(0) == y.extent(0), "x's and y's extents");
    auto [i] = program_tile(y, BLOCK);
    y.tile(i).store(a * x.tile(i).load() + y.tile(i).load());
  });
  return made;
}

const cli::KernelRegistration saxpy_registration({
    .name = "saxpy",
    .summary = "y = a x + y",
    .record = [](const Config& config) { return saxpy().record(config); },
    .config = "BLOCK=512",
    .sizes = "N=1048576",
    .parameters = "a=2 x=N y=N",
});

// An op with a lambda, for `kiln tune --plugin`.
const ops::TunableCallRegistration product_registration({
    .name = "relu_product",
    .summary = "c = relu(a b + bias)",
    .sizes = "M=64,N=48,K=32",
    .call =
        [](Stream& stream, DType, const tune::Problem& p) {
          const auto a = stand_in<float>({p["M"], p["K"]}), b = stand_in<float>({p["K"], p["N"]});
          const auto c = stand_in<float>({p["M"], p["N"]});
          ops::matmul(
              stream, a, b, c,
              [](auto sum, auto at, auto bias) { return max(sum + expand<0>(bias.tile(at.n).load()), 0.0f); },
              stand_in<float>({p["N"]}));
        },
});

int greet(int argc, char** argv) {
  if (argc != 2) {
    std::puts("usage: kiln greet NAME");
    return 2;
  }
  if (argv[1] == std::string_view("badly")) throw UserError("\"badly\" is not a name; give another one");
  std::printf("hello %s\n", argv[1]);
  return 0;
}

const cli::CommandRegistration greet_registration({"greet", "says hello", greet});

} // namespace
