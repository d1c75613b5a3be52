// Implements the elementwise ops: their kernels, tile sizes, checks and registrations.
#include <kiln/ops/elementwise.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/ops/detail/activate.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/dims.h>

#include <algorithm>

namespace kiln::ops {
namespace {

template <class T> void activation_body(Activation activation, View<const T, 2> x, View<T, 2> y) {
  using A = detail::Accumulator<T>;
  expects(x.rows() == y.rows(), "x's rows and y's rows");
  expects(x.cols() == y.cols(), "x's columns and y's columns");
  auto [row, col] = program_tile(y, BM, BN);
  Tile t = cast<A>(x.tile(row, col).load());
  y.tile(row, col).store(cast<T>(detail::activate(activation, t)));
}

template <class T>
void activation_mul_body(Activation activation, View<const T, 2> gate, View<const T, 2> up, View<T, 2> y) {
  using A = detail::Accumulator<T>;
  expects(gate.rows() == y.rows(), "gate's rows and y's rows");
  expects(gate.cols() == y.cols(), "gate's columns and y's columns");
  expects(up.rows() == y.rows(), "up's rows and y's rows");
  expects(up.cols() == y.cols(), "up's columns and y's columns");
  auto [row, col] = program_tile(y, BM, BN);
  Tile t = cast<A>(gate.tile(row, col).load());
  y.tile(row, col).store(cast<T>(detail::activate(activation, t) * cast<A>(up.tile(row, col).load())));
}

template <class T> ActivationKernel<T> make_activation(Activation activation) {
  return kernel("activation",
                [activation](View<const T, 2> x, View<T, 2> y) { activation_body<T>(activation, x, y); });
}
template <class T> ActivationMulKernel<T> make_activation_mul(Activation activation) {
  return kernel("activation_mul", [activation](View<const T, 2> gate, View<const T, 2> up, View<T, 2> y) {
    activation_mul_body<T>(activation, gate, up, y);
  });
}

// Heuristic: on a CPU, 4096 elements take some microseconds, compared with which the cost of distributing a
// program is small. On a GPU, 1024 elements are eight for each thread of a block.
std::int64_t elements_of_program(Device device) { return device.is_cpu() ? 4096 : 1024; }

Config elementwise_config(Device device, std::int64_t columns) {
  const std::int64_t elements = elements_of_program(device);
  std::int64_t width = 64;
  while (width < elements && width < columns)
    width *= 2;
  return {BM = elements / width, BN = width};
}

// If all matrices are contiguous, they are treated as one long row, so that tiles need not fit their width.
template <class... V> bool all_contiguous(const V&... views) { return (views.is_contiguous() && ...); }
template <class... V> bool same_extents(const V&... views) {
  std::int64_t rows[] = {views.rows()...}, columns[] = {views.cols()...};
  return std::equal(std::begin(rows) + 1, std::end(rows), std::begin(rows)) &&
         std::equal(std::begin(columns) + 1, std::end(columns), std::begin(columns));
}
template <class T> TensorView<T, 2> one_row(const TensorView<T, 2>& v) { return v.reshape({1, v.size()}); }

template <class K, class... V>
void launch_elementwise(detail::StreamAt stream, const K& kernel, const V&... views) {
  const Device device = stream.stream.device();
  if (same_extents(views...) && all_contiguous(views...)) {
    auto launch = [&](auto... rows) {
      kernel.launch(stream, {BM = 1, BN = elements_of_program(device)}, rows...);
    };
    launch(one_row(views)...);
  } else {
    auto columns = std::get<0>(std::tuple(views.cols()...));
    // Square tiles use whole lines of transposed matrices and of others.
    const bool transposed = device.is_cpu() && ((detail::rows_of_line(views) > 1) || ...);
    const Config config = transposed ? Config{BM = 64, BN = elements_of_program(device) / 64}
                                     : elementwise_config(device, columns);
    kernel.launch(stream, config, views...);
  }
}

} // namespace

template <class T> const ActivationKernel<T>& activation_kernel(Activation activation) {
  static const auto* kernels = new const ActivationKernel<T>[activation_count] {
    make_activation<T>(Activation::none), make_activation<T>(Activation::relu),
        make_activation<T>(Activation::gelu), make_activation<T>(Activation::silu)
  };
  return kernels[static_cast<int>(activation)];
}
template <class T> const ActivationMulKernel<T>& activation_mul_kernel(Activation activation) {
  static const auto* kernels = new const ActivationMulKernel<T>[activation_count] {
    make_activation_mul<T>(Activation::none), make_activation_mul<T>(Activation::relu),
        make_activation_mul<T>(Activation::gelu), make_activation_mul<T>(Activation::silu)
  };
  return kernels[static_cast<int>(activation)];
}

namespace {

template <class T>
void check_input(const detail::Checks& check, const char* rows, const char* columns,
                 const detail::Argument& in, const TensorView<const T, 2>& x, const TensorView<T, 2>& y) {
  check.equal(rows, x.rows(), y.rows());
  check.equal(columns, x.cols(), y.cols());
  check.apart_or_same({"y", y}, in);
}

template <class T>
void launch_activation(detail::StreamAt at, const TensorView<const T, 2>& x, const TensorView<T, 2>& y,
                       Activation activation) {
  detail::Checks check("ops::activation", at);
  check.writes({"y", y});
  check_input(check, "x's rows and y's rows", "x's columns and y's columns", {"x", x}, x, y);
  launch_elementwise(at, activation_kernel<T>(activation), x, y);
}

template <class T>
void launch_activation_mul(detail::StreamAt at, const TensorView<const T, 2>& gate,
                           const TensorView<const T, 2>& up, const TensorView<T, 2>& y,
                           Activation activation) {
  detail::Checks check("ops::activation_mul", at);
  check.writes({"y", y});
  check_input(check, "gate's rows and y's rows", "gate's columns and y's columns", {"gate", gate}, gate, y);
  check_input(check, "up's rows and y's rows", "up's columns and y's columns", {"up", up}, up, y);
  launch_elementwise(at, activation_mul_kernel<T>(activation), gate, up, y);
}

} // namespace

#define KILN_OPS_ELEMENTWISE(T)                                                                              \
  template KILN_API_INSTANCE const ActivationKernel<T>& activation_kernel<T>(Activation);                    \
  template KILN_API_INSTANCE const ActivationMulKernel<T>& activation_mul_kernel<T>(Activation);             \
  void activation(detail::StreamAt stream, TensorView<const T, 2> x, TensorView<T, 2> y,                     \
                  Activation activation) {                                                                   \
    launch_activation(stream, x, y, activation);                                                             \
  }                                                                                                          \
  void activation_mul(detail::StreamAt stream, TensorView<const T, 2> gate, TensorView<const T, 2> up,       \
                      TensorView<T, 2> y, Activation activation) {                                           \
    launch_activation_mul(stream, gate, up, y, activation);                                                  \
  }
KILN_OPS_ELEMENTS(KILN_OPS_ELEMENTWISE)

namespace {

const cli::KernelRegistration registered_activation_mul({
    .name = "activation_mul",
    .summary = "y = silu(gate) * up, f32",
    .record =
        [](const Config& config) { return activation_mul_kernel<float>(Activation::silu).record(config); },
    .config = "BM=1,BN=4096",
    .sizes = "M=512,N=14336",
    .parameters = "gate=M,N up=M,N y=M,N",
});

} // namespace
} // namespace kiln::ops
