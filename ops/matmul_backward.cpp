// Implements the gradients of products as products on transposed views, and those of biases as sums of
// columns.
#include <kiln/ops/matmul_backward.h>

#include <kiln/jit/runtime/rehearsing.h>
#include <kiln/ops/detail/batches.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/column_sums.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/detail/workspace.h>
#include <kiln/ops/elementwise.h>
#include <kiln/ops/matmul.h>

#include <optional>
#include <string>

namespace kiln::ops {
namespace {

using detail::Argument;
using detail::StreamAt;
using detail::Workspace;

// The names of the arguments in errors.
struct BackwardNames {
  const char *op, *a, *b, *dc, *da, *db;
};

// A gradient: result (+)= options.alpha times the sum of left right over the batches along which the result
// has extent 1. All have the rank of c.
struct ProductSum {
  Array left, right, result;
  const MatmulBackwardOptions& options;

  bool is_summed(int axis) const { return result.extents[axis] == 1 && left.extents[axis] != 1; }
  // The first axis of batches that is summed, or -1.
  int summed_axis() const {
    for (int i = 0; i < result.rank - 2; ++i)
      if (is_summed(i)) return i;
    return -1;
  }

  // Makes batches that are summed a part of the inner dimension, where the strides of both factors allow it.
  void fold_batches() {
    const int rows = left.rank - 2, columns = left.rank - 1;
    const auto fold = [&](int i) {
      std::int64_t &of_left = left.extents[columns], &of_right = right.extents[rows];
      if (of_left == 1)
        left.strides[columns] = left.strides[i], right.strides[rows] = right.strides[i];
      else if (left.strides[i] != left.strides[columns] * of_left ||
               right.strides[i] != right.strides[rows] * of_right)
        return false;
      of_left *= left.extents[i], of_right *= right.extents[i];
      left.extents[i] = right.extents[i] = 1;
      return true;
    };
    for (bool again = true; again;) {
      again = false;
      for (int i = rows - 1; i >= 0; --i)
        if (is_summed(i) && fold(i)) again = true;
    }
  }

  void launch(const StreamAt& at, const Array& to, double beta, const Input& residual = {}) const {
    matmul(at, Input(left), Input(right), Output(to),
           {.alpha = options.alpha,
            .beta = beta,
            .residual = residual,
            .precision = options.precision,
            .batch_invariant = options.batch_invariant});
  }
};

// Calls body(part) for each batch that is summed, with that batch of the factors.
template <class F> void each_summed(const ProductSum& p, const F& body) {
  const int axis = p.summed_axis();
  if (axis < 0) return body(p);
  ProductSum part = p;
  part.left.extents[axis] = part.right.extents[axis] = 1;
  for (std::int64_t i = 0; i < p.left.extents[axis]; ++i) {
    each_summed(part, body);
    detail::advance(part.left, part.left.strides[axis]);
    detail::advance(part.right, part.right.strides[axis]);
  }
}

// Sums over batches that are not part of the product are in the compute dtype: in the result if it has that
// dtype, and otherwise in memory of their own, to which the last product is added.
void run(const StreamAt& at, const char* op, ProductSum p, DType compute) {
  if (p.result.size() == 0) return;
  const double beta = p.options.accumulate ? 1 : 0;
  std::int64_t count = 1;
  p.fold_batches();
  for (int i = 0; i < p.result.rank - 2; ++i)
    if (p.is_summed(i)) count *= p.left.extents[i];
  if (count == 0) { // an empty sum
    for (int i = 0; i < p.result.rank - 2; ++i)
      p.left.extents[i] = p.right.extents[i] = p.result.extents[i];
    p.left.extents[p.left.rank - 1] = p.right.extents[p.right.rank - 2] = 0;
    return p.launch(at, p.result, beta);
  }
  if (count == 1) return p.launch(at, p.result, beta);
  if (kiln::detail::notes_paths())
    kiln::detail::note_path(
        std::string(op) +
        ": the strides do not allow one product for the sum over all batches, so that there is one for each; "
        "contiguous tensors are faster");
  const bool direct = p.result.dtype == compute;
  Workspace workspace(at, direct ? 0 : Workspace::bytes(compute, p.result.size()));
  const Array sums = direct ? p.result : workspace.take_like(compute, p.result).array();
  std::int64_t index = 0;
  each_summed(p, [&](const ProductSum& part) {
    const bool first = index == 0, last = ++index == count;
    if (direct)
      part.launch(at, sums, first ? beta : 1);
    else if (last)
      part.launch(at, p.result, beta, Input(sums));
    else
      part.launch(at, sums, first ? 0 : 1);
  });
  workspace.free();
}

// A result that may be left out.
struct Gradient {
  const char* name;
  const Output& output;
  Argument argument() const { return {name, output.array()}; }
};

void check_results(const detail::Checks& check, std::initializer_list<Gradient> results,
                   std::initializer_list<Argument> inputs) {
  bool any = false;
  for (const Gradient* g = results.begin(); g != results.end(); ++g) {
    if (!g->output.given()) continue;
    any = true;
    check.writes(g->argument());
    for (const Argument& in : inputs)
      check.apart(g->argument(), in);
    for (const Gradient* other = results.begin(); other != g; ++other)
      if (other->output.given()) check.apart(g->argument(), other->argument());
  }
  check.that(any, "no result is given; pass a gradient to compute");
}

void multiply_backward(const BackwardNames& names, const StreamAt& stream, const Input& in_a,
                       const Input& in_b, const Input& in_dc, const Output& da, const Output& db,
                       const MatmulBackwardOptions& options) {
  const detail::Checks check(names.op, stream);
  Array a = in_a.array(), b = in_b.array(), dc = in_dc.array();
  const Argument of_a{names.a, in_a.array()}, of_b{names.b, in_b.array()}, of_dc{names.dc, in_dc.array()};
  for (const Argument& argument : {of_a, of_b, of_dc})
    check.tensor(argument, 2);
  const auto rows = [](const Array& x) { return x.extents[x.rank - 2]; };
  const auto columns = [](const Array& x) { return x.extents[x.rank - 1]; };
  check.equal({names.a, "'s columns and ", names.b, "'s rows"}, columns(a), rows(b));
  check.equal({names.a, "'s rows and ", names.dc, "'s rows"}, rows(a), rows(dc));
  check.equal({names.b, "'s columns and ", names.dc, "'s columns"}, columns(b), columns(dc));
  detail::broadcast_batch(check, of_a, a, of_dc);
  detail::broadcast_batch(check, of_b, b, of_dc);
  check.activation(options.activation);
  const bool activated = options.activation != Activation::none;
  check.that(
      activated == options.before.given(),
      "activation and before belong together: pass both, where before is what the activation was applied to");
  const Argument before{"before", activated ? options.before.array() : dc};
  check.floats(before);
  check.same_extents(of_dc, before);
  for (const auto& [result, like] :
       {std::pair(Gradient{names.da, da}, of_a), std::pair(Gradient{names.db, db}, of_b)}) {
    if (!result.output.given()) continue;
    check.floats(result.argument());
    check.same_extents(like, result.argument());
  }
  const Array dbias = options.dbias.array();
  if (options.dbias.given()) {
    check.tensor({"dbias", dbias}, 1);
    check.rank({"dbias", dbias}, 1);
    check.equal({"dbias's size and ", names.dc, "'s columns", ""}, dbias.extents[0], columns(dc));
  }
  check_results(check, {{names.da, da}, {names.db, db}, {"dbias", options.dbias}},
                {of_a, of_b, of_dc, before});

  const DType compute = detail::compute_dtype({&a, &b, &dc, &before.array, &da.array(), &db.array(), &dbias});
  Workspace workspace(stream, activated ? Workspace::bytes(dc.dtype, dc.size()) : 0);
  if (activated) {
    const Output dz = workspace.take_like(dc.dtype, dc);
    activation_backward(stream, options.before, in_dc, dz, options.activation);
    dc = dz.array();
  }
  const auto padded = [&](const Output& output) {
    Array x = output.array();
    detail::pad_rank(x, dc.rank);
    return x;
  };
  if (da.given()) run(stream, names.op, {dc, detail::transposed(b), padded(da), options}, compute);
  if (db.given()) run(stream, names.op, {detail::transposed(a), dc, padded(db), options}, compute);
  const auto store = options.accumulate ? detail::Store::add : detail::Store::replace;
  if (options.dbias.given()) detail::sum_columns(stream, names.op, dc, dbias, store);
  workspace.free();
}

} // namespace

void matmul_backward(StreamAt stream, const Input& a, const Input& b, const Input& dc, const Output& da,
                     const Output& db, const MatmulBackwardOptions& options) {
  multiply_backward({"ops::matmul_backward", "a", "b", "dc", "da", "db"}, stream, a, b, dc, da, db, options);
}
void linear_backward(StreamAt stream, const Input& x, const Input& weight, const Input& dy, const Output& dx,
                     const Output& dweight, const MatmulBackwardOptions& options) {
  multiply_backward({"ops::linear_backward", "x", "weight", "dy", "dx", "dweight"}, stream, x, weight, dy, dx,
                    dweight, options);
}

} // namespace kiln::ops
