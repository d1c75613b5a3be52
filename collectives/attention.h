// Declares ParallelAttention, the attention part of a transformer layer on several ranks.
//
//   ParallelAttention attention(tp, {.width = 4096, .heads = 32, .kv_heads = 8, .head_size = 128});
//   attention.load_full(stream, qkv, out);        // [4096, (32 + 2 * 8) * 128] and [32 * 128, 4096]
//   attention.forward(stream, {1, tokens}, x, y, {.residual = x});
//
//   // With a KV cache, as in decoding. lengths [sequences]: the number of tokens already in the cache.
//   auto keys = Tensor<float, 4>::empty(device, {sequences, attention.own_kv_heads(), capacity, 128});
//   attention.forward_cached(stream, {sequences, 1}, x, y, {{.keys = keys, .values = values}, lengths});
//
// The heads are divided among the ranks. The number of ranks P must divide `heads`, and must divide
// `kv_heads` or be a multiple of it. If P is larger than kv_heads, each key and value head is replicated on
// P / kv_heads ranks, and backward adds up the gradients of the replicas. The columns of the weight qkv are
// all query heads, then all key heads, then all value heads. There are no biases.
//
// x, y and the residual are [tokens, width], one sequence after the other. With sequence parallelism each
// rank passes its own rows of them (communicator.h), regardless of where sequences begin; without it, all
// rows. For few tokens, pass {.sequence_parallel = false} to a call.
//
// All ranks must construct the same layers and make the same calls in the same order. Calls return when their
// work is queued on the stream, or later: synchronize it before the host uses the results. Errors: UserError
// for shapes or arguments that are not as described here, and those of TensorParallel. Not thread-safe.
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
  // Rotary embedding of queries and keys; default: none. Token i of a sequence has position i, or length + i
  // after `length` tokens in a cache.
  std::optional<ops::RotaryOptions> rotary = {};
  // The probability with which forward drops an attention weight; AttentionForwardOptions::seed determines
  // which ones (ops/attention_options.h), the same for any number of ranks. forward_cached drops none.
  double dropout = 0;
  bool sequence_parallel = true;
  std::string tag = "attention";
};

// Of a call of ParallelAttention::forward.
struct AttentionForwardOptions {
  ops::Input residual = {}; // as in ForwardOptions (layers.h)
  NormOfSum norm = {};
  std::optional<bool> sequence_parallel = {};
  std::uint64_t seed = 0; // of the dropout; use a different one for each step and layer
};

class ParallelAttention {
public:
  ParallelAttention(TensorParallel& tp, AttentionShape shape);

  // The layers. On a rank, the columns of qkv are its query heads, then its key heads, then its value heads.
  ColumnParallelLinear& qkv() { return qkv_; }
  RowParallelLinear& out() { return out_; }
  std::int64_t own_heads() const { return shape_.heads / tp_.communicator().size(); }
  std::int64_t own_kv_heads() const { return qkv_.features(1).count() / shape_.head_size; }
  // Copies this rank's part of the whole weights: qkv [width, (heads + 2 kv_heads) head_size] and
  // out [heads head_size, width]. See ParallelLinear::load_full.
  void load_full(ops::detail::StreamAt stream, const ops::Input& qkv, const ops::Input& out);

  struct Tokens {                           // of one call, on all ranks together
    std::int64_t sequences = 1, length = 0; // tokens of each sequence
    std::int64_t all() const { return sequences * length; }
  };
  // Computes y = out(attention(qkv(x))) + residual.
  void forward(ops::detail::StreamAt stream, Tokens tokens, const ops::Input& x, const ops::Output& y,
               const AttentionForwardOptions& options = {});

  // This rank's part of a KV cache: of own_kv_heads() heads, contiguous or in pages (ops/kv_cache.h).
  struct Cache {
    ops::KeyValueCache cache = {};
    // [sequences], of i32 or i64, on the device: the number of tokens of each sequence before the call.
    ops::Input lengths = {};
    // Pass true only if all lengths are 0 (a prefill), which is not checked. Then the tokens attend to each
    // other only, and the keys are not read back from the cache, which is faster for many tokens.
    bool empty = false;
  };
  // As forward, for tokens that follow those in the cache. It appends their keys and values to the cache, and
  // does not change the lengths: add tokens.length to them after the last layer. It has no backward.
  void forward_cached(ops::detail::StreamAt stream, Tokens tokens, const ops::Input& x, const ops::Output& y,
                      const Cache& cache, const ForwardOptions& options = {});

  struct Gradients { // with the extents of qkv().weight() and out().weight(); {}: it is not computed
    ops::Output qkv = {}, out = {};
  };
  // Computes dx and the gradients of the weights for the last forward call, whose activations are kept until
  // the next one, and overwrites them. Pass the x of that call. UserError if there is no such call, if the
  // last call was forward_cached, or if its options.sequence_parallel differed from that of the shape.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const Gradients& gradients);

private:
  struct Heads {
    ops::Array q, k, v, attended; // [sequences, own heads, length, head size]
  };
  ops::Array heads_of(const ops::Output& matrix, std::int64_t first, std::int64_t count) const;
  // Computes the projections of x, and makes memory for the results.
  Heads project(ops::detail::StreamAt stream, Tokens tokens, const ops::Input& x,
                std::optional<bool> sequence_parallel);
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
