// Implements attention as a column-parallel layer, the attention of a rank's heads, and a row-parallel layer.
#include <kiln/collectives/attention.h>

#include <kiln/dsl/error.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/rotary.h>

#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;

const AttentionShape& checked(const AttentionShape& s, int ranks) {
  if (s.heads < 1 || s.kv_heads < 1 || s.head_size < 1 || s.heads % s.kv_heads != 0)
    throw UserError("ParallelAttention: " + std::to_string(s.heads) + " heads, " +
                    std::to_string(s.kv_heads) + " heads of keys and a head size of " +
                    std::to_string(s.head_size) +
                    " are not possible; the heads must be a multiple of those of keys");
  if (s.heads % ranks != 0 || (s.kv_heads % ranks != 0 && ranks % s.kv_heads != 0))
    throw UserError("ParallelAttention: " + std::to_string(s.heads) + " heads and " +
                    std::to_string(s.kv_heads) + " heads of keys cannot be divided among " +
                    std::to_string(ranks) +
                    " ranks; use a number of ranks that divides the heads, and divides or is a multiple of "
                    "those of keys");
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

void ParallelAttention::forward(ops::detail::StreamAt stream, Tokens tokens, const Input& x, const Output& y,
                                const Input& residual) {
  tokens_ = tokens;
  const std::int64_t own = own_heads(), keys = own_kv_heads();
  projected_ =
      projected_memory_.tensor(stream, shape_.dtype, {tokens.all(), (own + 2 * keys) * shape_.head_size});
  attended_ = attended_memory_.tensor(stream, shape_.dtype, {tokens.all(), own * shape_.head_size});
  const DType of_lse = shape_.dtype == DType::F64 ? DType::F64 : DType::F32;
  lse_ = lse_memory_.tensor(stream, of_lse, {tokens.sequences, own, tokens.length});
  qkv_.forward(stream, x, projected_);
  const Array q = heads_of(projected_, 0, own), k = heads_of(projected_, own, keys),
              v = heads_of(projected_, own + keys, keys);
  if (shape_.rotary)
    for (const Array& heads : {q, k})
      ops::rotary(stream, Input(heads), Output(heads), *shape_.rotary);
  ops::attention(stream, Input(q), Input(k), Input(v), Output(heads_of(attended_, 0, own)),
                 {.causal = shape_.causal, .lse = lse_});
  out_.forward(stream, Input(attended_.array()), y, residual);
}

void ParallelAttention::backward(ops::detail::StreamAt stream, const Input& x, const Input& dy,
                                 const Output& dx, const Gradients& gradients) {
  if (!projected_.given())
    throw UserError(stream.site, "ParallelAttention::backward: there was no forward; call it first");
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
                                  {.causal = shape_.causal}, {});
  if (shape_.rotary)
    for (const Array& heads : {dq, dk})
      ops::rotary_backward(stream, Input(heads), Output(heads), *shape_.rotary);
  qkv_.backward(stream, x, Input(d.array()), dx, gradients.qkv, {});
}

} // namespace kiln::collectives
