// Defines and times the kernels that measure a machine.
#include <kiln/autotune/analytic/dims.h>
#include <kiln/autotune/analytic/probes.h>

#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <utility>

namespace kiln::tune {

namespace {

// Kernels of functions are never destroyed, since a search in the background may launch them while the
// process exits.
template <class K> const K& lasting(K kernel) { return *new K(std::move(kernel)); }

template <class T> Tensor<T, 2> factor(Device device, std::int64_t rows, std::int64_t columns) {
  if (device.is_cpu()) return Tensor<T, 2>::zeros({rows, columns});
  auto on_host = Tensor<T, 2>::empty({rows, columns});
  std::uint32_t random = 1;
  for (T& x : on_host) {
    random = random * 1664525 + 1013904223;
    x = static_cast<T>(static_cast<float>(random >> 28) - 8);
  }
  return on_host.to(device);
}

} // namespace

double copy_seconds(Timed& timed, std::int64_t bytes, std::int64_t tile) {
  static const auto& copy = lasting(kernel("tuner's copy", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(x.tile(i).load());
  }));
  const std::int64_t n = bytes / 8;
  auto x = Tensor<float, 1>::zeros(timed.device(), {n}), y = Tensor<float, 1>::zeros(timed.device(), {n});
  if (timed.device().is_cpu()) x.fill(1), y.fill(1); // pages of zeros may share one physical page
  return timed.least_seconds([&](Stream& stream) { copy.launch(stream, {BN = tile}, x, y); });
}

double empty_seconds(Timed& timed, std::int64_t programs) {
  static const auto& empty = lasting(kernel("tuner's empty kernel", [](View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    out.tile(i).store(zeros<float>(BN));
  }));
  auto out = Tensor<float, 1>::zeros(timed.device(), {programs * 16});
  return timed.least_seconds([&](Stream& stream) { empty.launch(stream, {BN = 16}, out); });
}

template <class T, class A> double dot_rate(Timed& timed, const ProductSizes& sizes, const Config& config) {
  static const auto& product =
      lasting(kernel("tuner's product", [](View<const T, 2> a, View<const T, 2> b, View<A, 2> c) {
        auto [m, n] = program_tile(c, BM, BN);
        auto sums = for_range(BK, a.cols(), zeros<A>(BM, BN), [&](auto k, auto sum) {
          return dot(a.tile(m, k).load(), b.tile(k, n).load(), sum);
        });
        c.tile(m, n).store(sums);
      }));
  const auto [m, n, k] = sizes;
  const auto a = factor<T>(timed.device(), m, k), b = factor<T>(timed.device(), k, n);
  auto c = Tensor<A, 2>::zeros(timed.device(), {m, n});
  return 2.0 * static_cast<double>(m * n * k) /
         timed.least_seconds([&](Stream& stream) { product.launch(stream, config, a, b, c); });
}

template double dot_rate<float, float>(Timed&, const ProductSizes&, const Config&);
template double dot_rate<double, double>(Timed&, const ProductSizes&, const Config&);
template double dot_rate<bf16, float>(Timed&, const ProductSizes&, const Config&);
template double dot_rate<std::int8_t, std::int32_t>(Timed&, const ProductSizes&, const Config&);

template <int steps> double elementwise_rate(Timed& timed, std::int64_t elements, std::int64_t tile) {
  static const auto& chain = lasting(kernel("tuner's chain", [](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    Tile<float, BN> v = x.tile(i).load();
    for (int s = 0; s < steps; ++s)
      v = v * 0.99f + 0.01f;
    out.tile(i).store(v);
  }));
  auto x = Tensor<float, 1>::zeros(timed.device(), {elements}),
       y = Tensor<float, 1>::zeros(timed.device(), {elements});
  return 2.0 * steps * static_cast<double>(elements) /
         timed.least_seconds([&](Stream& stream) { chain.launch(stream, {BN = tile}, x, y); });
}

template double elementwise_rate<32>(Timed&, std::int64_t, std::int64_t);
template double elementwise_rate<256>(Timed&, std::int64_t, std::int64_t);

} // namespace kiln::tune
