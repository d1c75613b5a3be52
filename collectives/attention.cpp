// Implements attention as a column-parallel layer, the attention of a rank's heads, and a row-parallel layer.
#include <kiln/collectives/attention.h>

#include <kiln/dsl/error.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/rotary.h>

#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;

const AttentionShape& checked(const AttentionShape& s, int ranks) {
  if (s.heads < 1 || s.kv_heads < 1 || s.head_size < 1 || s.heads % s.kv_heads != 0)
    throw UserError("ParallelAttention: " + std::to_string(s.heads) + " heads, " +
                    std::to_string(s.kv_heads) + " kv_heads and a head_size of " +
                    std::to_string(s.head_size) +
                    " are not possible; pass positive numbers, and a multiple of kv_heads as heads");
  if (s.heads % ranks != 0 || (s.kv_heads % ranks != 0 && ranks % s.kv_heads != 0))
    throw UserError("ParallelAttention: " + std::to_string(s.heads) + " heads and " +
                    std::to_string(s.kv_heads) + " kv_heads cannot be divided among " +
                    std::to_string(ranks) +
                    " ranks; use a number of ranks that divides heads, and that divides kv_heads or is a "
                    "multiple of it");
  return s;
}

LinearShape of_qkv(const AttentionShape& s) {
  LinearShape l{.in = s.width, .out = (s.heads + 2 * s.kv_heads) * s.head_size, .dtype = s.dtype};
  l.parts = {{s.heads * s.head_size, s.head_size},
             {s.kv_heads * s.head_size, s.head_size, true},
             {s.kv_heads * s.head_size, s.head_size, true}};
  l.sequence_parallel = s.sequence_parallel;
  l.tag = s.tag + ".qkv";
  return l;
}
LinearShape of_out(const AttentionShape& s) {
  LinearShape l{.in = s.heads * s.head_size, .out = s.width, .dtype = s.dtype};
  l.unit = s.head_size;
  l.sequence_parallel = s.sequence_parallel;
  l.tag = s.tag + ".out";
  return l;
}

} // namespace

ParallelAttention::ParallelAttention(TensorParallel& tp, AttentionShape shape)
    : shape_(checked(shape, tp.communicator().size())), tp_(tp), qkv_(tp, of_qkv(shape_)),
      out_(tp, of_out(shape_)), projected_memory_(tp.communicator().device()),
      attended_memory_(tp.communicator().device()), lse_memory_(tp.communicator().device()),
      gradient_memory_(tp.communicator().device()), attended_gradient_memory_(tp.communicator().device()) {}

void ParallelAttention::load_full(ops::detail::StreamAt stream, const Input& qkv, const Input& out) {
  qkv_.load_full(stream, qkv, {});
  out_.load_full(stream, out, {});
}

// Heads from `first` on of a matrix [tokens, heads * head size], as [sequences, heads, length, head size].
Array ParallelAttention::heads_of(const Output& matrix, std::int64_t first, std::int64_t count) const {
  const Array& m = matrix.array();
  Array a{static_cast<char*>(m.data) + first * shape_.head_size * size_of(m.dtype), m.dtype, false, 4};
  const std::int64_t extents[] = {tokens_.sequences, count, tokens_.length, shape_.head_size},
                     strides[] = {tokens_.length * m.extents[1], shape_.head_size, m.extents[1], 1};
  std::copy(extents, extents + 4, a.extents);
  std::copy(strides, strides + 4, a.strides);
  return a;
}

ParallelAttention::Heads ParallelAttention::project(ops::detail::StreamAt stream, Tokens tokens,
                                                    const Input& x, std::optional<bool> sequence_parallel) {
  tokens_ = tokens;
  const std::int64_t own = own_heads(), keys = own_kv_heads();
  projected_ =
      projected_memory_.tensor(stream, shape_.dtype, {tokens.all(), (own + 2 * keys) * shape_.head_size});
  attended_ = attended_memory_.tensor(stream, shape_.dtype, {tokens.all(), own * shape_.head_size});
  qkv_.forward(stream, x, projected_, {.sequence_parallel = sequence_parallel});
  return {heads_of(projected_, 0, own), heads_of(projected_, own, keys),
          heads_of(projected_, own + keys, keys), heads_of(attended_, 0, own)};
}

void ParallelAttention::rotate(ops::detail::StreamAt stream, const Heads& heads) const {
  if (!shape_.rotary) return;
  for (const Array& part : {heads.q, heads.k})
    ops::rotary(stream, Input(part), Output(part), *shape_.rotary);
}

ops::AttentionOptions ParallelAttention::attention_options() const {
  return {.causal = shape_.causal,
          .dropout = shape_.dropout,
          .seed = seed_,
          .first_head = qkv_.features(0).begin / shape_.head_size,
          .whole_heads = shape_.heads};
}

void ParallelAttention::forward(ops::detail::StreamAt stream, Tokens tokens, const Input& x, const Output& y,
                                const AttentionForwardOptions& options) {
  const Heads heads = project(stream, tokens, x, options.sequence_parallel);
  const DType of_lse = shape_.dtype == DType::F64 ? DType::F64 : DType::F32;
  lse_ = lse_memory_.tensor(stream, of_lse, {tokens.sequences, own_heads(), tokens.length});
  rotate(stream, heads);
  seed_ = options.seed;
  ops::AttentionOptions with_lse = attention_options();
  with_lse.lse = lse_;
  ops::attention(stream, Input(heads.q), Input(heads.k), Input(heads.v), Output(heads.attended), with_lse);
  out_.forward(
      stream, Input(attended_.array()), y,
      {.residual = options.residual, .norm = options.norm, .sequence_parallel = options.sequence_parallel});
  if (options.sequence_parallel.value_or(shape_.sequence_parallel) != shape_.sequence_parallel)
    projected_ = {};
}

void ParallelAttention::forward_cached(ops::detail::StreamAt stream, Tokens tokens, const Input& x,
                                       const Output& y, const Cache& cache, const ForwardOptions& options) {
  const Heads heads = project(stream, tokens, x, options.sequence_parallel);
  const Input q(heads.q), k(heads.k), v(heads.v);
  const Output attended(heads.attended);
  if (cache.empty) {
    rotate(stream, heads);
    ops::cache_append(stream, k, v, cache.lengths, cache.cache);
    ops::attention(stream, q, k, v, attended, {.causal = shape_.causal});
  } else {
    ops::AppendOptions append;
    if (shape_.rotary) append = {.rotary = shape_.rotary, .q = q, .rotated_q = Output(heads.q)};
    ops::cache_append(stream, k, v, cache.lengths, cache.cache, append);
    ops::attention_decode(stream, q, cache.cache, cache.lengths, attended,
                          {.appended = tokens.length, .causal = shape_.causal});
  }
  out_.forward(stream, Input(attended_.array()), y, options);
  projected_ = {};
}

void ParallelAttention::backward(ops::detail::StreamAt stream, const Input& x, const Input& dy,
                                 const Output& dx, const Gradients& gradients) {
  if (!projected_.given())
    throw UserError(stream.site,
                    "ParallelAttention::backward: there are no activations of a forward call; call "
                    "forward (not forward_cached) first, with sequence_parallel of the shape");
  const std::int64_t own = own_heads(), keys = own_kv_heads();
  const Array& p = projected_.array();
  const Output d = gradient_memory_.tensor(stream, shape_.dtype, {p.extents[0], p.extents[1]});
  const Output dattended =
      attended_gradient_memory_.tensor(stream, shape_.dtype, {p.extents[0], own * shape_.head_size});
  out_.backward(stream, Input(attended_.array()), dy, dattended, gradients.out, {});
  const Array dq = heads_of(d, 0, own), dk = heads_of(d, own, keys), dv = heads_of(d, own + keys, keys);
  const Input dattended_heads(heads_of(dattended, 0, own)), q(heads_of(projected_, 0, own)),
      k(heads_of(projected_, own, keys)), v(heads_of(projected_, own + keys, keys)),
      o(heads_of(attended_, 0, own)), lse(lse_.array());
  const Output to_q(dq), to_k(dk), to_v(dv);
  ops::detail::attention_backward(stream, {dattended_heads, q, k, v, o, lse, to_q, to_k, to_v},
                                  attention_options(), {});
  if (shape_.rotary)
    for (const Array& heads : {dq, dk})
      ops::rotary_backward(stream, Input(heads), Output(heads), *shape_.rotary);
  qkv_.backward(stream, x, Input(d.array()), dx, gradients.qkv, {});
}

} // namespace kiln::collectives
