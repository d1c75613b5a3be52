// Declares ParallelMlp, the feed-forward part of a transformer layer on several ranks.
//
//   ParallelMlp mlp(tp, {.width = 4096, .hidden = 14336, .dtype = DType::BF16});        // SwiGLU
//   mlp.load_full(stream, gate_and_up, down);     // [4096, 2 * 14336] and [14336, 4096]
//   mlp.forward(stream, rows, x, y, {.residual = r}); // y = down(silu(gate(x)) * up(x)) + r
//
// A gated MLP (the default) computes y = down(act(gate(x)) * up(x)), and a plain one y = down(act(up(x))).
// The hidden features are divided among the ranks. x, y and the residual are [rows, width], where `rows` is
// the number of rows on all ranks together. With sequence parallelism, each rank passes its own rows only
// (communicator.h); without it, all rows.
//
// All ranks must construct the same layers and make the same calls in the same order. Calls return when their
// work is queued on the stream, or later: synchronize it before the host uses the results. Errors are those
// of TensorParallel. Not thread-safe.
#pragma once

#include <kiln/collectives/layers.h>
#include <kiln/dsl/api.h>

KILN_API_BEGIN
namespace kiln::collectives {

struct MlpShape {
  std::int64_t width = 0, hidden = 0; // of x and y; between the layers ("intermediate size")
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

  // The layers. The weight of `up` is [width, hidden], or [width, 2 hidden] if the MLP is gated: first the
  // columns of the gate, then those of up.
  ColumnParallelLinear& up() { return up_; }
  RowParallelLinear& down() { return down_; }
  // Copies this rank's part of the whole weights and biases: see ParallelLinear::load_full. An MLP without
  // biases gets none.
  void load_full(ops::detail::StreamAt stream, const ops::Input& up, const ops::Input& down,
                 const ops::Input& up_bias = {}, const ops::Input& down_bias = {});

  // Computes y as above, plus the residual. `rows` is the number of rows on all ranks together.
  void forward(ops::detail::StreamAt stream, std::int64_t rows, const ops::Input& x, const ops::Output& y,
               const ForwardOptions& options = {});

  struct Gradients { // with the extents of weight() and bias() of up() and down(); {}: it is not computed
    ops::Output up = {}, up_bias = {}, down = {}, down_bias = {};
  };
  // Computes dx and the gradients of the weights for the last forward call, whose activations are kept until
  // the next one, and overwrites them. Pass the x of that call. UserError if there is no such call, or if its
  // options.sequence_parallel differed from that of the shape.
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
