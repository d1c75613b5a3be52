// Implements the linear layers of tensor parallelism on products that overlap.
#include <kiln/collectives/layers.h>

#include <kiln/collectives/arrays.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/ops/detail/checks.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/matmul_backward.h>
#include <kiln/ops/norm.h>

#include <cstring>
#include <numeric>
#include <utility>

namespace kiln::collectives {
namespace {

using ops::Array, ops::Input, ops::Output;
using ops::detail::Checks, ops::detail::StreamAt;

Input transposed(const Output& x) {
  Array a = x.array();
  std::swap(a.extents[0], a.extents[1]);
  std::swap(a.strides[0], a.strides[1]);
  return Input(a);
}

// Copies a matrix whose elements may lie anywhere. Memory of devices is copied by rows.
void copy_matrix(const Checks& check, StreamAt stream, const Array& to, const Array& from) {
  const std::int64_t rows = to.extents[0], columns = to.extents[1], size = size_of(to.dtype);
  const auto at = [size](const Array& a, std::int64_t i, std::int64_t j) {
    return static_cast<char*>(a.data) + (i * a.strides[0] + j * a.strides[1]) * size;
  };
  if (to.size() == 0) return;
  const bool by_rows = (to.strides[1] == 1 && from.strides[1] == 1) || columns == 1;
  if (by_rows) {
    for (std::int64_t i = 0; i < rows; ++i)
      copy(stream.stream, at(to, i, 0), at(from, i, 0), columns * size);
    return;
  }
  check.that(
      stream.stream.device().is_cpu(),
      "the weight has rows that are not contiguous, and is not on the CPU; copy it to a contiguous tensor");
  stream.stream.synchronize();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(at(to, i, j), at(from, i, j), static_cast<std::size_t>(size));
}

Array as_row(Array a) { // a vector as a matrix
  a.rank = 2;
  a.extents[1] = a.extents[0], a.strides[1] = a.strides[0];
  a.extents[0] = 1, a.strides[0] = 0;
  return a;
}

LinearShape checked(LinearShape shape) {
  if (shape.in < 1 || shape.out < 1)
    throw UserError("ParallelLinear: a weight of " + std::to_string(shape.in) + " x " +
                    std::to_string(shape.out) + " has no elements; pass positive numbers of features");
  if (!is_float(shape.dtype))
    throw UserError("ParallelLinear: weights cannot have the dtype " + std::string(name(shape.dtype)) +
                    "; pass a float dtype");
  return shape;
}

} // namespace

Output LayerMemory::tensor(StreamAt stream, DType dtype, std::initializer_list<std::int64_t> extents) {
  std::int64_t bytes = size_of(dtype);
  for (std::int64_t extent : extents)
    bytes *= extent;
  if (bytes > buffer_.size()) {
    stream.stream.synchronize(); // commands may use the old one
    buffer_ = Buffer();
    buffer_ = Buffer(device_, bytes);
  }
  return Output(contiguous_array(buffer_.data(), dtype, extents));
}

// ---- the shard ----

std::vector<ParallelLinear::Part> ParallelLinear::parts_of(const LinearShape& shape, bool columns,
                                                           int ranks) {
  std::vector<ColumnPart> given = shape.parts;
  if (given.empty()) given.push_back({columns ? shape.out : shape.in, shape.unit});
  if (!columns && !shape.parts.empty())
    throw UserError("RowParallelLinear: only a column-parallel layer has parts; leave `parts` empty");
  std::vector<Part> parts;
  std::int64_t begin = 0;
  for (const ColumnPart& part : given) {
    const std::string text =
        std::to_string(part.columns) + " features in units of " + std::to_string(part.unit);
    if (part.columns < 1 || part.unit < 1 || part.columns % part.unit != 0)
      throw UserError("ParallelLinear: " + text + " are not possible; pass multiples of a positive unit");
    const std::int64_t units = part.columns / part.unit;
    const bool replicated = part.replicate && units < ranks;
    if (replicated && ranks % units != 0)
      throw UserError("ParallelLinear: " + text + " cannot be replicated evenly on " + std::to_string(ranks) +
                      " ranks; use a multiple of " + std::to_string(units) + " ranks");
    parts.push_back({begin, part.columns, part.unit, replicated});
    begin += part.columns;
  }
  if (begin != (columns ? shape.out : shape.in))
    throw UserError("ParallelLinear: the parts have " + std::to_string(begin) +
                    " columns, and the weight has " + std::to_string(columns ? shape.out : shape.in) +
                    "; pass parts that add up to the weight");
  return parts;
}

ParallelLinear::ParallelLinear(TensorParallel& tp, LinearShape shape, Divided divided)
    : tp_(tp), shape_(checked(std::move(shape))), divided_(divided),
      parts_(parts_of(shape_, divided == Divided::columns, tp.communicator().size())),
      gathered_(tp.communicator().device()) {
  const bool columns = divided_ == Divided::columns;
  const std::int64_t own = own_features(tp.communicator().rank()), in = columns ? shape_.in : own,
                     out = columns ? own : shape_.out, element = size_of(shape_.dtype);
  const std::int64_t weight_bytes = (in * out * element + 255) / 256 * 256;
  memory_ = Buffer(tp.communicator().device(), weight_bytes + out * element + 256);
  weight_ = Output(contiguous_array(memory_.data(), shape_.dtype, {in, out}));
  if (shape_.bias)
    bias_ = Output(contiguous_array(static_cast<char*>(memory_.data()) + weight_bytes, shape_.dtype, {out}));
}

Rows ParallelLinear::range_of(int part, int rank) const {
  const Part& p = parts_[static_cast<std::size_t>(part)];
  const std::int64_t units = p.count / p.unit;
  const int ranks = tp_.communicator().size();
  if (p.replicated) {
    const std::int64_t unit = rank * units / ranks;
    return {unit * p.unit, (unit + 1) * p.unit};
  }
  const Rows range = Shards::even(units, ranks).rows(rank);
  return {range.begin * p.unit, range.end * p.unit};
}

std::int64_t ParallelLinear::own_features(int rank) const {
  std::int64_t sum = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part)
    sum += range_of(static_cast<int>(part), rank).count();
  return sum;
}

template <class F> void ParallelLinear::each_part(int rank, const F& body) const {
  std::int64_t own = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const Rows range = range_of(static_cast<int>(part), rank);
    const std::int64_t first = parts_[part].begin + range.begin;
    body(Rows{first, first + range.count()}, Rows{own, own + range.count()});
    own += range.count();
  }
}

TensorShard ParallelLinear::features_of(int first, int last) const {
  const int rank = tp_.communicator().rank();
  TensorShard shard{.extents = {0}};
  std::int64_t own = 0;
  for (int part = 0; part < last; ++part) {
    const Rows range = range_of(part, rank);
    if (part >= first) {
      // The first of several replicas saves.
      const bool replica =
          parts_[static_cast<std::size_t>(part)].replicated && rank > 0 && range_of(part, rank - 1) == range;
      const std::int64_t begin = shard.extents[0];
      shard.ranges.push_back({{begin + range.begin, begin + range.end}, own, !replica});
      shard.extents[0] += parts_[static_cast<std::size_t>(part)].count;
    }
    own += range.count();
  }
  return shard;
}

TensorShard ParallelLinear::weight_shard_of(int first, int last) const {
  TensorShard shard = features_of(first, last);
  if (divided_ == Divided::columns)
    shard.extents.insert(shard.extents.begin(), shape_.in), shard.axis = 1;
  else
    shard.extents.push_back(shape_.out);
  return shard;
}

TensorShard ParallelLinear::bias_shard_of(int first, int last) const {
  if (divided_ == Divided::columns) return features_of(first, last);
  return {.extents = {shape_.out}, .ranges = {{{0, shape_.out}, 0, tp_.communicator().rank() == 0}}};
}

void ParallelLinear::check_whole(const Checks& check, const Array& w, bool bias, const Array& b) const {
  check.rank({"weight", w}, 2);
  check.that(w.dtype == shape_.dtype, "the weight does not have the dtype of the layer; convert it");
  check.equal("the weight's rows and the layer's in", w.extents[0], shape_.in);
  check.equal("the weight's columns and the layer's out", w.extents[1], shape_.out);
  check.that(bias == shape_.bias, shape_.bias ? "the layer has a bias, and none is given; pass it"
                                              : "a bias is given, and the layer has none; pass {}");
  if (!bias) return;
  check.rank({"bias", b}, 1);
  check.that(b.dtype == shape_.dtype, "the bias does not have the dtype of the layer; convert it");
  check.equal("the bias's size and the layer's out", b.extents[0], shape_.out);
}

void ParallelLinear::load_full(StreamAt stream, const Input& weight, const Input& bias) {
  const Checks check("ParallelLinear::load_full", stream);
  check_whole(check, weight.array(), bias.given(), bias.array());
  const bool columns = divided_ == Divided::columns;
  const int axis = columns ? 1 : 0, rank = tp_.communicator().rank();
  each_part(rank, [&](Rows whole, Rows own) {
    copy_matrix(check, stream, part_of(weight_.array(), axis, own), part_of(weight.array(), axis, whole));
    if (bias.given() && columns)
      copy_matrix(check, stream, as_row(part_of(bias_.array(), 0, own)),
                  as_row(part_of(bias.array(), 0, whole)));
  });
  if (bias.given() && !columns) copy_matrix(check, stream, as_row(bias_.array()), as_row(bias.array()));
  stream.stream.synchronize(); // the caller may free what it passed
}

void ParallelLinear::gather_full(StreamAt stream, const Output& weight, const Output& bias) {
  const Checks check("ParallelLinear::gather_full", stream);
  check_whole(check, weight.array(), bias.given(), bias.array());
  Communicator& comm = tp_.communicator();
  const bool columns = divided_ == Divided::columns;
  // The shards come one after the other, each of them a contiguous matrix and vector.
  const auto gather = [&](const Array& own, std::int64_t per_feature) {
    std::vector<std::int64_t> elements;
    for (int r = 0; r < comm.size(); ++r)
      elements.push_back(own_features(r) * per_feature);
    const std::int64_t count = std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
    const Output all = gathered_.tensor(stream, shape_.dtype, {count});
    const Input mine(
        contiguous_array(own.data, shape_.dtype, {elements[static_cast<std::size_t>(comm.rank())]}));
    comm.all_gather(stream, mine, all, {.tag = shape_.tag, .rows = elements});
    return static_cast<char*>(all.array().data);
  };
  const std::int64_t per_feature = columns ? shape_.in : shape_.out, size = size_of(shape_.dtype);
  const char* next = gather(weight_.array(), per_feature);
  for (int r = 0; r < comm.size(); ++r) {
    const std::int64_t count = own_features(r);
    const Array shard = contiguous_array(const_cast<char*>(next), shape_.dtype,
                                         {columns ? shape_.in : count, columns ? count : shape_.out});
    each_part(r, [&](Rows whole, Rows own) {
      const int axis = columns ? 1 : 0;
      copy_matrix(check, stream, part_of(weight.array(), axis, whole), part_of(shard, axis, own));
    });
    next += count * per_feature * size;
  }
  stream.stream.synchronize();
  if (bias.given() && columns) {
    next = gather(bias_.array(), 1);
    for (int r = 0; r < comm.size(); ++r) {
      const std::int64_t count = own_features(r);
      const Array shard = contiguous_array(const_cast<char*>(next), shape_.dtype, {count});
      each_part(r, [&](Rows whole, Rows own) {
        copy_matrix(check, stream, as_row(part_of(bias.array(), 0, whole)), as_row(part_of(shard, 0, own)));
      });
      next += count * size;
    }
  } else if (bias.given()) {
    copy_matrix(check, stream, as_row(bias.array()), as_row(bias_.array()));
  }
  stream.stream.synchronize();
}

// ---- column-parallel ----

ColumnParallelLinear::ColumnParallelLinear(TensorParallel& tp, LinearShape shape)
    : ParallelLinear(tp, std::move(shape), Divided::columns) {
  Communicator& comm = tp.communicator();
  for (const Part& p : parts_)
    replicas_.push_back(p.replicated
                            ? comm.split(static_cast<int>(comm.rank() * (p.count / p.unit) / comm.size()))
                            : nullptr);
}

// The gradients of a part that several ranks have are added up.
void ColumnParallelLinear::add_replicas(StreamAt stream, const Output& dweight, const Output& dbias) {
  const Checks check("ColumnParallelLinear::backward", stream);
  std::int64_t begin = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::int64_t columns = features(static_cast<int>(part)).count();
    const Rows own{begin, begin + columns};
    begin += columns;
    if (!replicas_[part]) continue;
    const auto add = [&](const Array& gradient, std::int64_t rows) {
      const Output sum = gathered_.tensor(stream, gradient.dtype, {rows, columns});
      copy_matrix(check, stream, sum.array(), gradient);
      replicas_[part]->all_reduce(stream, Input(sum.array()), sum, {.tag = shape_.tag + ".replicas"});
      copy_matrix(check, stream, gradient, sum.array());
      stream.stream.synchronize(); // the memory is used again
    };
    if (dweight.given()) add(part_of(dweight.array(), 1, own), shape_.in);
    if (dbias.given()) add(as_row(part_of(dbias.array(), 0, own)), 1);
  }
}

void ColumnParallelLinear::forward(StreamAt stream, const Input& x, const Output& y,
                                   const ColumnForwardOptions& call) {
  const Input bias = bias_.given() ? Input(bias_.array()) : Input();
  if (!call.sequence_parallel.value_or(shape_.sequence_parallel) || tp_.communicator().size() == 1) {
    ops::MatmulOptions options{.activation = shape_.activation, .bias = bias, .batch_invariant = true};
    options.whole_columns = shape_.out;
    return ops::matmul(stream, x, Input(weight_.array()), y, options);
  }
  const Array& out = y.array();
  const Output gathered =
      gathered_.tensor(stream, x.array().dtype, {out.rank == 2 ? out.extents[0] : 0, shape_.in});
  ParallelMatmulOptions options{
      .activation = shape_.activation, .bias = bias, .whole_columns = shape_.out, .tag = shape_.tag};
  tp_.gather_matmul(stream, x, Input(weight_.array()), y, gathered, options);
}

void ColumnParallelLinear::backward(StreamAt stream, const Input& x, const Input& dy, const Output& dx,
                                    const Output& dweight, const Output& dbias) {
  const Checks check("ColumnParallelLinear::backward", stream);
  check.that(
      shape_.activation == ops::Activation::none,
      "a layer with an activation has no backward; use a layer without one, and ops::activation_backward");
  Communicator& comm = tp_.communicator();
  const ops::MatmulBackwardOptions of_weight{.dbias = dbias};
  const ParallelMatmulOptions options{.whole_depth = shape_.out, .tag = shape_.tag + ".dx"};
  const bool divided = shape_.sequence_parallel && comm.size() > 1;
  const Input w = transposed(weight_);
  if (!divided) {
    if (comm.size() == 1)
      ops::matmul(stream, dy, w, dx, {.batch_invariant = true});
    else
      tp_.matmul_all_reduce(stream, dy, w, dx, options);
    if (dweight.given() || dbias.given())
      ops::matmul_backward(stream, x, Input(weight_.array()), dy, {}, dweight, of_weight);
    return add_replicas(stream, dweight, dbias);
  }
  if (!dweight.given() && !dbias.given()) return tp_.matmul_reduce_scatter(stream, dy, w, dx, options);
  const Output gathered = gathered_.tensor(stream, x.array().dtype, {dy.array().extents[0], shape_.in});
  Work gathering = comm.async_all_gather(stream, x, gathered, {.tag = shape_.tag + ".x"});
  tp_.matmul_reduce_scatter(stream, dy, w, dx, options);
  gathering.wait();
  ops::matmul_backward(stream, Input(gathered.array()), Input(weight_.array()), dy, {}, dweight, of_weight);
  add_replicas(stream, dweight, dbias);
}

// ---- row-parallel ----

RowParallelLinear::RowParallelLinear(TensorParallel& tp, LinearShape shape)
    : ParallelLinear(tp, std::move(shape), Divided::rows) {
  if (shape_.activation != ops::Activation::none)
    throw UserError(
        "RowParallelLinear: only a column-parallel layer has an activation; apply it to the result");
}

void RowParallelLinear::forward(StreamAt stream, const Input& x, const Output& y,
                                const ForwardOptions& call) {
  const Input bias = bias_.given() ? Input(bias_.array()) : Input();
  if (tp_.communicator().size() == 1) {
    if (call.norm.y.given()) {
      const Checks check("RowParallelLinear::forward", stream);
      check.apart({"norm.y", call.norm.y.array()}, {"y", y.array()});
      if (call.norm.gamma.given()) check.apart({"y", y.array()}, {"norm.gamma", call.norm.gamma.array()});
    }
    ops::matmul(stream, x, Input(weight_.array()), y,
                {.bias = bias, .residual = call.residual, .batch_invariant = true});
    if (call.norm.y.given())
      ops::rmsnorm(stream, Input(y.array()), call.norm.gamma, call.norm.y,
                   {.eps = call.norm.eps, .batch_invariant = true});
    return;
  }
  const ParallelMatmulOptions options{.bias = bias,
                                      .residual = call.residual,
                                      .norm = call.norm,
                                      .whole_depth = shape_.in,
                                      .tag = shape_.tag};
  if (call.sequence_parallel.value_or(shape_.sequence_parallel))
    tp_.matmul_reduce_scatter(stream, x, Input(weight_.array()), y, options);
  else
    tp_.matmul_all_reduce(stream, x, Input(weight_.array()), y, options);
}

void RowParallelLinear::backward(StreamAt stream, const Input& x, const Input& dy, const Output& dx,
                                 const Output& dweight, const Output& dbias) {
  const ops::MatmulBackwardOptions of_weight{.dbias = dbias};
  Input whole = dy;
  if (!shape_.sequence_parallel || tp_.communicator().size() == 1) {
    ops::MatmulOptions options{.batch_invariant = true};
    options.whole_columns = shape_.in;
    ops::matmul(stream, dy, transposed(weight_), dx, options);
  } else {
    const Array& of_x = dx.array();
    const Output gathered =
        gathered_.tensor(stream, dy.array().dtype, {of_x.rank == 2 ? of_x.extents[0] : 0, shape_.out});
    tp_.gather_matmul(stream, dy, transposed(weight_), dx, gathered,
                      {.whole_columns = shape_.in, .tag = shape_.tag + ".dx"});
    whole = Input(gathered.array());
  }
  if (dweight.given() || dbias.given())
    ops::matmul_backward(stream, x, Input(weight_.array()), whole, {}, dweight, of_weight);
}

} // namespace kiln::collectives
