// Implements the MLP as a column-parallel and a row-parallel layer.
#include <kiln/collectives/mlp.h>

#include <kiln/dsl/error.h>
#include <kiln/ops/elementwise.h>

#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;

LinearShape of_up(const MlpShape& s) {
  LinearShape l{.in = s.width, .out = s.gated ? 2 * s.hidden : s.hidden, .dtype = s.dtype, .bias = s.bias};
  l.sequence_parallel = s.sequence_parallel;
  if (s.gated) l.parts = {{s.hidden}, {s.hidden}};
  l.tag = s.tag + ".up";
  return l;
}
LinearShape of_down(const MlpShape& s) {
  LinearShape l{.in = s.hidden, .out = s.width, .dtype = s.dtype, .bias = s.bias};
  l.sequence_parallel = s.sequence_parallel;
  l.tag = s.tag + ".down";
  return l;
}

// Half of the columns.
Array columns_of(Array a, int part) {
  a.extents[1] /= 2;
  a.data = static_cast<char*>(a.data) + part * a.extents[1] * size_of(a.dtype);
  return a;
}

} // namespace

ParallelMlp::ParallelMlp(TensorParallel& tp, MlpShape shape)
    : shape_(std::move(shape)), up_(tp, of_up(shape_)), down_(tp, of_down(shape_)),
      hidden_memory_(tp.communicator().device()), active_memory_(tp.communicator().device()),
      gradient_memory_(tp.communicator().device()), active_gradient_memory_(tp.communicator().device()) {}

void ParallelMlp::load_full(ops::detail::StreamAt stream, const Input& up, const Input& down,
                            const Input& up_bias, const Input& down_bias) {
  up_.load_full(stream, up, up_bias);
  down_.load_full(stream, down, down_bias);
}

void ParallelMlp::forward(ops::detail::StreamAt stream, std::int64_t rows, const Input& x, const Output& y,
                          const ForwardOptions& options) {
  const std::int64_t own = down_.features().count();
  hidden_ = hidden_memory_.tensor(stream, shape_.dtype, {rows, shape_.gated ? 2 * own : own});
  active_ = active_memory_.tensor(stream, shape_.dtype, {rows, own});
  up_.forward(stream, x, hidden_, {.sequence_parallel = options.sequence_parallel});
  const Array hidden = hidden_.array();
  if (shape_.gated)
    ops::activation_mul(stream, Input(columns_of(hidden, 0)), Input(columns_of(hidden, 1)), active_,
                        shape_.activation);
  else
    ops::activation(stream, Input(hidden), active_, shape_.activation);
  down_.forward(stream, Input(active_.array()), y, options);
  if (options.sequence_parallel.value_or(shape_.sequence_parallel) != shape_.sequence_parallel) hidden_ = {};
}

void ParallelMlp::backward(ops::detail::StreamAt stream, const Input& x, const Input& dy, const Output& dx,
                           const Gradients& gradients) {
  if (!hidden_.given())
    throw UserError(stream.site, "ParallelMlp::backward: there are no activations of a forward call; call "
                                 "forward first, with sequence_parallel of the shape");
  const Array hidden = hidden_.array(), active = active_.array();
  const Output dhidden =
      gradient_memory_.tensor(stream, shape_.dtype, {hidden.extents[0], hidden.extents[1]});
  const Output dactive =
      active_gradient_memory_.tensor(stream, shape_.dtype, {active.extents[0], active.extents[1]});
  down_.backward(stream, Input(active), dy, dactive, gradients.down, gradients.down_bias);
  const Array d = dhidden.array();
  if (shape_.gated)
    ops::activation_mul_backward(stream, Input(columns_of(hidden, 0)), Input(columns_of(hidden, 1)),
                                 Input(dactive.array()), Output(columns_of(d, 0)), Output(columns_of(d, 1)),
                                 shape_.activation);
  else
    ops::activation_backward(stream, Input(hidden), Input(dactive.array()), dhidden, shape_.activation);
  up_.backward(stream, x, Input(d), dx, gradients.up, gradients.up_bias);
}

} // namespace kiln::collectives
