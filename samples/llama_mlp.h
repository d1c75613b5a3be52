// The MLP block of Llama-3-8B at its real sizes, written with Kiln's ops: down(silu(gate(x)) * up(x)).
#pragma once

#include "support.h"

namespace samples {

struct MlpSizes {
  std::int64_t tokens = 512, hidden = 4096, intermediate = 14336;
};

// Normal-like weights of the given scale, made by a kernel: the language's random numbers depend on seed and
// place alone.
namespace mlp {
KILN_DIM(BLOCK);
}
inline kiln::Tensor<float, 2> random_weights(kiln::Stream& stream, std::int64_t rows, std::int64_t cols,
                                             float scale, std::uint64_t seed) {
  using namespace kiln;
  static const auto fill =
      kernel("random_weights", [](View<float, 1> out, Scalar<std::uint64_t> seed, Scalar<float> scale) {
        auto [i] = program_tile(out, mlp::BLOCK);
        out.tile(i).store((rand(seed, i + arange(mlp::BLOCK)) * 2 - 1) * scale);
      });
  auto weights = Tensor<float, 2>::empty({rows, cols});
  fill.launch(stream, {mlp::BLOCK = 8192}, weights.view().reshape({rows * cols}), seed, scale);
  stream.synchronize();
  return weights;
}

// The block for one token in double precision.
inline std::vector<double> exact_mlp(const kiln::Tensor<float, 2>& gate, const kiln::Tensor<float, 2>& up,
                                     const kiln::Tensor<float, 2>& down, const float* x) {
  auto product = [](const kiln::Tensor<float, 2>& w, const auto* x) {
    std::vector<double> y(static_cast<std::size_t>(w.extent(1)));
    const float* row = w.data();
    for (std::int64_t k = 0; k < w.extent(0); ++k, row += w.extent(1))
      for (std::size_t n = 0; n < y.size(); ++n)
        y[n] += static_cast<double>(x[k]) * row[n];
    return y;
  };
  auto h = product(gate, x), u = product(up, x);
  for (std::size_t i = 0; i < h.size(); ++i)
    h[i] = h[i] / (1 + std::exp(-h[i])) * u[i];
  return product(down, h.data());
}

inline int run_llama_mlp(MlpSizes s = {}) {
  using namespace kiln;
  Stream stream;
  auto gate = random_weights(stream, s.hidden, s.intermediate, 0.03f, 1);
  auto up = random_weights(stream, s.hidden, s.intermediate, 0.03f, 2);
  auto down = random_weights(stream, s.intermediate, s.hidden, 0.016f, 3);
  auto x = random({s.tokens, s.hidden}), y = poisoned({s.tokens, s.hidden});
  auto h = poisoned({s.tokens, s.intermediate}), u = poisoned({s.tokens, s.intermediate});

  double seconds = median_seconds(stream, [&] {
    ops::matmul(stream, x, gate, h);
    ops::matmul(stream, x, up, u);
    ops::activation_mul(stream, h, u, h, ops::Activation::silu);
    ops::matmul(stream, h, down, y);
  });

  Error error;
  for (std::int64_t token : {std::int64_t{0}, s.tokens / 3, s.tokens - 1}) { // some, each of them whole
    auto expected = exact_mlp(gate, up, down, x.data() + token * s.hidden);
    for (std::int64_t i = 0; i < s.hidden; ++i)
      error.add(y.data()[token * s.hidden + i], expected[static_cast<std::size_t>(i)]);
  }
  double flops = 3 * 2.0 * static_cast<double>(s.tokens) * static_cast<double>(s.hidden) *
                 static_cast<double>(s.intermediate);
  return report("Llama-3-8B MLP, " + std::to_string(s.tokens) + " tokens of " + std::to_string(s.hidden) +
                    " -> " + std::to_string(s.intermediate),
                seconds, {.flops = flops}, error.relative(), 1e-5);
}

} // namespace samples
