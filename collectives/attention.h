// Declares ParallelAttention, the attention part of a transformer layer on several ranks.
//
//   ParallelAttention attention(tp, {.width = 4096, .heads = 32, .kv_heads = 8, .head_size = 128});
//   attention.load_full(stream, qkv, out);        // [4096, (32 + 2 * 8) * 128] and [32 * 128, 4096]
//   attention.forward(stream, {1, tokens}, x, y, {.residual = x});
//
//   // With a cache of keys and values, as in decoding: lengths [sequences] are the tokens in the cache.
//   auto keys = Tensor<float, 4>::empty(device, {sequences, attention.own_kv_heads(), capacity, 128});
//   attention.forward_cached(stream, {sequences, 1}, x, y, {{.keys = keys, .values = values}, lengths});
//
// The heads are divided among the ranks: their number P must divide `heads`, and must divide `kv_heads` or be
// a multiple of it. In the latter case, P / kv_heads ranks have the same heads of keys and values, whose
// gradients are added up. The columns of the weight qkv are all heads of queries, then all of keys, then all
// of values. There are no biases.
//
// x, y and the residual are [tokens, width], one sequence after the other. With sequence parallelism each rank
// has its own rows of them, wherever sequences begin; without it, all rows. For a few tokens, pass
// {.sequence_parallel = false} to a call.
#pragma once

#include <kiln/collectives/layers.h>
#include <kiln/dsl/api.h>
#include <kiln/ops/attention_options.h>
#include <kiln/ops/kv_cache.h>
#include <kiln/ops/rotary_options.h>

#include <optional>

KILN_API_BEGIN
namespace kiln::collectives {

struct AttentionShape {
  std::int64_t width = 0, heads = 0, kv_heads = 0, head_size = 0;
  DType dtype = DType::F32;
  bool causal = true;
  std::optional<ops::RotaryOptions> rotary =
      {}; // token i of a sequence is at position i, or after the cached
  // The probability with which forward drops a weight, as the seed of the call determines (see
  // ops/attention_options.h); forward_cached drops none. Any number of ranks drops the same weights.
  double dropout = 0;
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
               const ForwardOptions& options = {});

  // This rank's part of a cache: of own_kv_heads() heads, contiguous or in pages (ops/kv_cache.h).
  struct Cache {
    ops::KeyValueCache cache = {};
    ops::Input lengths = {}; // [sequences], of i32 or i64: the tokens in it before the call
    // Whether all lengths are 0, so that the tokens see themselves only (a prefill): then the keys are not read
    // back from the cache, which is faster for many tokens.
    bool empty = false;
  };
  // As forward, for tokens after those in the cache, to which it adds their keys and values. It does not change
  // the lengths: add tokens.length to them after the last layer. There is no backward for this call.
  void forward_cached(ops::detail::StreamAt stream, Tokens tokens, const ops::Input& x, const ops::Output& y,
                      const Cache& cache, const ForwardOptions& options = {});

  struct Gradients { // this rank's parts; {} leaves one out
    ops::Output qkv = {}, out = {};
  };
  // Computes the gradients of x and of the weights for the last forward call, whose activations are kept
  // until the next one, and overwrites them. Pass the x of that call. UserError without a forward, or if
  // options.sequence_parallel of that call was given and is not that of the layer.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const Gradients& gradients);

private:
  struct Heads {
    ops::Array q, k, v, attended; // [sequences, own heads, length, head size]
  };
  ops::Array heads_of(const ops::Output& matrix, std::int64_t first, std::int64_t count) const;
  // Computes the projections of x, and makes memory for the results.
  Heads project(ops::detail::StreamAt stream, Tokens tokens, const ops::Input& x,
                const ForwardOptions& options);
  void rotate(ops::detail::StreamAt stream, const Heads& heads) const;
  ops::AttentionOptions attention_options() const; // of forward and backward

  const AttentionShape shape_;
  TensorParallel& tp_;
  ColumnParallelLinear qkv_;
  RowParallelLinear out_;
  LayerMemory projected_memory_, attended_memory_, lse_memory_, gradient_memory_, attended_gradient_memory_;
  ops::Output projected_, attended_,
      lse_; // of the last forward; projected_ is {} if there is no backward for it
  Tokens tokens_;
  std::uint64_t seed_ = 0;
};

} // namespace kiln::collectives
KILN_API_END
