// Declares ParallelMlp, the feed-forward part of a transformer layer on several ranks.
//
//   ParallelMlp mlp(tp, {.width = 4096, .hidden = 14336, .dtype = DType::BF16});        // SwiGLU
//   mlp.load_full(stream, gate_and_up, down);     // [4096, 2 * 14336] and [14336, 4096]
//   mlp.forward(stream, rows, x, y, {.residual = r}); // y = down(silu(gate(x)) * up(x)) + r
//
// A gated MLP (the default) computes act(x gate) * (x up), a plain one act(x up). The features between the
// two layers are divided among the ranks. x, y and the residual are [rows, width], where `rows` is the number of
// rows of all ranks; with sequence parallelism, each rank passes its own rows only.
#pragma once

#include <kiln/collectives/layers.h>
#include <kiln/dsl/api.h>

KILN_API_BEGIN
namespace kiln::collectives {

struct MlpShape {
  std::int64_t width = 0, hidden = 0; // of x and y, and between the layers (often called intermediate size)
  DType dtype = DType::F32;
  bool gated = true;
  ops::Activation activation = ops::Activation::silu;
  bool bias = false;
  bool sequence_parallel = true;
  std::string tag = "mlp";
};

class ParallelMlp {
public:
  ParallelMlp(TensorParallel& tp, MlpShape shape);

  // The layers: `up` has the gate's columns first if the MLP is gated.
  ColumnParallelLinear& up() { return up_; }
  RowParallelLinear& down() { return down_; }
  // Without biases; use up() and down() for those.
  void load_full(ops::detail::StreamAt stream, const ops::Input& up, const ops::Input& down);

  void forward(ops::detail::StreamAt stream, std::int64_t rows, const ops::Input& x, const ops::Output& y,
               const ForwardOptions& options = {});

  struct Gradients { // this rank's parts; {} leaves one out
    ops::Output up = {}, up_bias = {}, down = {}, down_bias = {};
  };
  // Computes the gradients of x and of the weights for the last forward call, whose activations are kept
  // until the next one, and overwrites them. Pass the x of that call. UserError without a forward, or if
  // options.sequence_parallel of that call was given and is not that of the layer.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const Gradients& gradients);

private:
  const MlpShape shape_;
  ColumnParallelLinear up_;
  RowParallelLinear down_;
  LayerMemory hidden_memory_, active_memory_, gradient_memory_, active_gradient_memory_;
  ops::Output hidden_, active_; // of the last forward that backward can use
};

} // namespace kiln::collectives
KILN_API_END
