// Implements matrix products: the kernels for each activation, the checks, and the registrations for `kiln`.
#include <kiln/ops/matmul.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/activate.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/dims.h>

namespace kiln::ops {
namespace {

// The tile of the product a b that this program computes, in the type of the accumulator.
template <class A, class T, class M, class N>
Tile<A, BM, BN> product(const View<const T, 2>& a, const View<const T, 2>& b, M m, N n) {
  return for_range(BK, a.cols(), zeros<A>(BM, BN),
                   [&](auto k, auto sum) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), sum); });
}

template <class T>
void matmul_body(Activation activation, View<const T, 2> a, View<const T, 2> b, View<T, 2> c) {
  expects(a.cols() == b.rows(), "a's columns and b's rows");
  expects(a.rows() == c.rows(), "a's rows and c's rows");
  expects(b.cols() == c.cols(), "b's columns and c's columns");
  auto [m, n] = program_tile(c, BM, BN);
  auto sum = product<detail::Accumulator<T>>(a, b, m, n);
  c.tile(m, n).store(cast<T>(detail::activate(activation, sum)));
}

template <class T>
void linear_body(Activation activation, View<const T, 2> x, View<const T, 2> weight, View<const T, 1> bias,
                 View<T, 2> y) {
  expects(x.cols() == weight.rows(), "x's columns and weight's rows");
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(weight.cols() == y.cols(), "weight's columns and y's columns");
  expects(bias.size() == y.cols(), "bias's size and y's columns");
  using A = detail::Accumulator<T>;
  auto [m, n] = program_tile(y, BM, BN);
  auto sum = product<A>(x, weight, m, n);
  Tile biased = sum + cast<A>(bias.tile(n).load());
  y.tile(m, n).store(cast<T>(detail::activate(activation, biased)));
}

template <class T> MatmulKernel<T> make_matmul(Activation activation) {
  return kernel("matmul", [activation](View<const T, 2> a, View<const T, 2> b, View<T, 2> c) {
    matmul_body<T>(activation, a, b, c);
  });
}
template <class T> LinearKernel<T> make_linear(Activation activation) {
  return kernel("linear", [activation](View<const T, 2> x, View<const T, 2> weight, View<const T, 1> bias,
                                       View<T, 2> y) { linear_body<T>(activation, x, weight, bias, y); });
}

} // namespace

template <class T> const MatmulKernel<T>& matmul_kernel(Activation activation) {
  static const auto* kernels = new const MatmulKernel<T>[activation_count] {
    make_matmul<T>(Activation::none), make_matmul<T>(Activation::relu), make_matmul<T>(Activation::gelu),
        make_matmul<T>(Activation::silu)
  };
  return kernels[static_cast<int>(activation)];
}
template <class T> const LinearKernel<T>& linear_kernel(Activation activation) {
  static const auto* kernels = new const LinearKernel<T>[activation_count] {
    make_linear<T>(Activation::none), make_linear<T>(Activation::relu), make_linear<T>(Activation::gelu),
        make_linear<T>(Activation::silu)
  };
  return kernels[static_cast<int>(activation)];
}

namespace {

// The config that the tuner found for this product, or else that of matmul_config.
template <class T>
Config config_for(const detail::StreamAt& at, const TensorView<const T, 2>& a,
                  const TensorView<const T, 2>& b, const TensorView<T, 2>& c) {
  const std::int64_t m = c.rows(), n = c.cols(), k = a.cols();
  if (const auto known = detail::known_config("matmul", dtype_of<T>, at, {m, n, k}, {a, b, c})) return *known;
  return matmul_config(at.stream.device(), dtype_of<T>, m, n, k);
}

template <class T>
void launch_matmul(detail::StreamAt at, const TensorView<const T, 2>& a, const TensorView<const T, 2>& b,
                   const TensorView<T, 2>& c, MatmulOptions options) {
  detail::Checks check("ops::matmul", at);
  check.equal("a's columns and b's rows", a.cols(), b.rows());
  check.equal("a's rows and c's rows", a.rows(), c.rows());
  check.equal("b's columns and c's columns", b.cols(), c.cols());
  check.writes({"c", c});
  check.apart({"c", c}, {"a", a});
  check.apart({"c", c}, {"b", b});
  const Config config = config_for<T>(at, a, b, c);
  matmul_kernel<T>(options.activation).launch(at, config, a, b, c);
}

template <class T>
void launch_linear(detail::StreamAt at, const TensorView<const T, 2>& x, const TensorView<const T, 2>& weight,
                   const TensorView<const T, 1>& bias, const TensorView<T, 2>& y, MatmulOptions options) {
  detail::Checks check("ops::linear", at);
  check.equal("x's columns and weight's rows", x.cols(), weight.rows());
  check.equal("x's rows and y's rows", x.rows(), y.rows());
  check.equal("weight's columns and y's columns", weight.cols(), y.cols());
  check.equal("bias's size and y's columns", bias.size(), y.cols());
  check.writes({"y", y});
  check.apart({"y", y}, {"x", x});
  check.apart({"y", y}, {"weight", weight});
  check.apart({"y", y}, {"bias", bias});
  const Config config = config_for<T>(at, x, weight, y);
  linear_kernel<T>(options.activation).launch(at, config, x, weight, bias, y);
}

} // namespace

#define KILN_OPS_MATMUL(T)                                                                                   \
  template KILN_API_INSTANCE const MatmulKernel<T>& matmul_kernel<T>(Activation);                            \
  template KILN_API_INSTANCE const LinearKernel<T>& linear_kernel<T>(Activation);                            \
  void matmul(detail::StreamAt stream, TensorView<const T, 2> a, TensorView<const T, 2> b,                   \
              TensorView<T, 2> c, MatmulOptions options) {                                                   \
    launch_matmul(stream, a, b, c, options);                                                                 \
  }                                                                                                          \
  void linear(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<const T, 2> weight,              \
              TensorView<const T, 1> bias, TensorView<T, 2> y, MatmulOptions options) {                      \
    launch_linear(stream, x, weight, bias, y, options);                                                      \
  }
KILN_OPS_ELEMENTS(KILN_OPS_MATMUL)

namespace {

const cli::KernelRegistration registered_matmul({
    .name = "matmul",
    .summary = "c = a b, f32",
    .record = [](const Config& config) { return matmul_kernel<float>().record(config); },
    .config = "BM=256,BN=256,BK=512",
    .sizes = "M=2048,N=2048,K=2048",
    .parameters = "a=M,K b=K,N c=M,N",
});
const cli::KernelRegistration registered_linear({
    .name = "linear",
    .summary = "y = silu(x weight + bias), bf16",
    .record = [](const Config& config) { return linear_kernel<bf16>(Activation::silu).record(config); },
    .config = "BM=256,BN=256,BK=512",
    .sizes = "M=512,N=4096,K=4096",
    .parameters = "x=M,K weight=K,N bias=N y=M,N",
});

} // namespace
} // namespace kiln::ops
