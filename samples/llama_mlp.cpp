// Computes the MLP block of Llama-3-8B: build/bin/llama_mlp [TOKENS HIDDEN INTERMEDIATE]
//
// Computes the MLP block of Llama-3-8B at its real sizes with Kiln's ops: down(silu(gate(x)) * up(x)).
#include "support.h"

using namespace kiln;

KILN_DIM(BLOCK);

// Fills a tensor with weights in [-scale, scale) by a kernel. The language's random numbers depend only on
// the seed and the index.
Tensor<float, 2> random_weights(Stream& stream, std::int64_t rows, std::int64_t cols, float scale,
                                std::uint64_t seed) {
  static const auto fill =
      kernel("random_weights", [](View<float, 1> out, Scalar<std::uint64_t> seed, Scalar<float> scale) {
        auto [i] = program_tile(out, BLOCK);
        out.tile(i).store((rand(seed, i + arange(BLOCK)) * 2 - 1) * scale);
      });
  auto weights = Tensor<float, 2>::empty(stream.device(), {rows, cols});
  fill.launch(stream, samples::choose({BLOCK = 8192}, {BLOCK = 1024}), weights.view().reshape({rows * cols}),
              seed, scale);
  stream.synchronize();
  return weights;
}

// The block for one token in double precision.
std::vector<double> exact_mlp(const Tensor<float, 2>& gate, const Tensor<float, 2>& up,
                              const Tensor<float, 2>& down, const float* x) {
  auto product = [](const Tensor<float, 2>& w, const auto* x) {
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

int main(int argc, char** argv) {
  std::int64_t tokens = samples::number(argc, argv, 1, 512), hidden = samples::number(argc, argv, 2, 4096),
               intermediate = samples::number(argc, argv, 3, 14336);
  Stream stream(samples::device());
  auto gate = random_weights(stream, hidden, intermediate, 0.03f, 1);
  auto up = random_weights(stream, hidden, intermediate, 0.03f, 2);
  auto down = random_weights(stream, intermediate, hidden, 0.016f, 3);
  auto x = samples::random({tokens, hidden}), y = samples::poisoned({tokens, hidden});
  auto h = samples::poisoned({tokens, intermediate}), u = samples::poisoned({tokens, intermediate});

  double seconds = samples::median_seconds(stream, [&] {
    ops::matmul(stream, x, gate, h);
    ops::matmul(stream, x, up, u);
    ops::activation_mul(stream, h, u, h, ops::Activation::silu);
    ops::matmul(stream, h, down, y);
  });

  samples::Error error;
  auto host_x = samples::on_host(x), result = samples::on_host(y);
  auto host_gate = samples::on_host(gate), host_up = samples::on_host(up), host_down = samples::on_host(down);
  for (std::int64_t token : {std::int64_t{0}, tokens / 3, tokens - 1}) { // checks three whole rows
    auto expected = exact_mlp(host_gate, host_up, host_down, host_x.data() + token * hidden);
    for (std::int64_t i = 0; i < hidden; ++i)
      error.add(result.data()[token * hidden + i], expected[static_cast<std::size_t>(i)]);
  }
  double flops =
      3 * 2.0 * static_cast<double>(tokens) * static_cast<double>(hidden) * static_cast<double>(intermediate);
  return samples::report("Llama-3-8B MLP, " + std::to_string(tokens) + " tokens of " +
                             std::to_string(hidden) + " -> " + std::to_string(intermediate),
                         seconds, {.flops = flops}, error.relative(), 1e-5);
}
