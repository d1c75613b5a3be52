// Declares ParallelAttention, the attention part of a transformer layer on several ranks.
//
//   ParallelAttention attention(tp, {.width = 4096, .heads = 32, .kv_heads = 8, .head_size = 128});
//   attention.load_full(stream, qkv, out);        // [4096, (32 + 2 * 8) * 128] and [32 * 128, 4096]
//   attention.forward(stream, {1, tokens}, x, y, residual);
//
// The heads are divided among the ranks: their number P must divide `heads`, and must divide `kv_heads` or be
// a multiple of it. In the latter case, P / kv_heads ranks have the same heads of keys and values, whose
// gradients are added up. The columns of the weight qkv are all heads of queries, then all of keys, then all
// of values. There are no biases, and there is no cache of keys and values.
//
// x, y and residual are [tokens, width], one sequence after the other. With sequence parallelism each rank
// has its own rows of them, wherever sequences begin; without it, all rows.
#pragma once

#include <kiln/collectives/layers.h>
#include <kiln/dsl/api.h>
#include <kiln/ops/rotary_options.h>

#include <optional>

KILN_API_BEGIN
namespace kiln::collectives {

struct AttentionShape {
  std::int64_t width = 0, heads = 0, kv_heads = 0, head_size = 0;
  DType dtype = DType::F32;
  bool causal = true;
  std::optional<ops::RotaryOptions> rotary = {}; // token i of a sequence is at position i
  bool sequence_parallel = true;
  std::string tag = "attention";
};

class ParallelAttention {
public:
  ParallelAttention(TensorParallel& tp, AttentionShape shape);

  // The layers: the columns of qkv are the rank's heads of queries, keys and values.
  ColumnParallelLinear& qkv() { return qkv_; }
  RowParallelLinear& out() { return out_; }
  std::int64_t own_heads() const { return shape_.heads / tp_.communicator().size(); }
  std::int64_t own_kv_heads() const { return qkv_.features(1).count() / shape_.head_size; }
  void load_full(ops::detail::StreamAt stream, const ops::Input& qkv, const ops::Input& out);

  struct Tokens {
    std::int64_t sequences = 1, length = 0; // of equal length
    std::int64_t all() const { return sequences * length; }
  };
  void forward(ops::detail::StreamAt stream, Tokens tokens, const ops::Input& x, const ops::Output& y,
               const ops::Input& residual = {});

  struct Gradients { // this rank's parts; {} leaves one out
    ops::Output qkv = {}, out = {};
  };
  // Computes the gradients of x and of the weights for the last forward call, whose activations are kept
  // until the next one, and overwrites them. Pass the x of that call. UserError without a forward.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const Gradients& gradients);

private:
  ops::Array heads_of(const ops::Output& matrix, std::int64_t first, std::int64_t count) const;

  const AttentionShape shape_;
  TensorParallel& tp_;
  ColumnParallelLinear qkv_;
  RowParallelLinear out_;
  LayerMemory projected_memory_, attended_memory_, lse_memory_, gradient_memory_, attended_gradient_memory_;
  ops::Output projected_, attended_, lse_; // of the last forward
  Tokens tokens_;
};

} // namespace kiln::collectives
KILN_API_END
