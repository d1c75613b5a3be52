// Declares the linear layers of tensor parallelism, forward and backward.
//
//   TensorParallel tp(comm);
//   ColumnParallelLinear up(tp, {.in = 4096, .out = 14336, .dtype = DType::BF16});
//   RowParallelLinear down(tp, {.in = 14336, .out = 4096, .dtype = DType::BF16});
//   up.load_full(stream, up_weight, {});          // each rank keeps its shard
//   down.load_full(stream, down_weight, {});
//   up.forward(stream, x, h);                     // x [own rows, 4096], h [rows, 14336 / ranks]
//   down.forward(stream, h, y);                   // y [own rows, 4096]
//
// A column-parallel layer divides the columns of its weight among the ranks, and a row-parallel one the rows.
// Weights are [in, out], the transpose of PyTorch's, and undefined until they are loaded (load_full, or
// Checkpoint::load). Of n columns or rows, rank r of P has those from n * r / P to n * (r + 1) / P (end
// excluded), so P need not divide n. A layer refers to its TensorParallel, and that to its communicator;
// destroy them in reverse order.
//
// With sequence parallelism (the default), activations outside of a pair of such layers are divided among the
// ranks by rows, which are tokens: a column-parallel layer gathers its input while it multiplies, and a
// row-parallel one reduces and scatters its result while it multiplies. Without it, activations are whole on
// every rank: a column-parallel layer sends nothing in its forward, and a row-parallel one all-reduces its
// result.
//
// All ranks must construct the same layers, and make the same forward and backward calls, in the same order.
// A call returns when its work is queued on the stream, or later. Synchronize the stream before the host, or
// another stream, uses the results.
//
// Every rank has the whole bias of a row-parallel layer, and its whole gradient: do not add it up over ranks.
//
// Bits: the results of a column-parallel layer are those of one rank. Sums over ranks have the same bits in
// every run and with every schedule, but these depend on the number of ranks.
//
// Each layer has workspaces that grow to the largest call. All tensors are on the device of the communicator.
// Errors are those of TensorParallel. Not thread-safe.
#pragma once

#include <kiln/collectives/tensor_parallel.h>
#include <kiln/collectives/tensor_shard.h>
#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/buffer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::ops::detail {
class Checks;
}

KILN_API_BEGIN
namespace kiln::collectives {

// One of the matrices side by side of which a column-parallel layer's weight consists.
struct ColumnPart {
  std::int64_t columns = 0; // on all ranks together; a multiple of `unit`
  std::int64_t unit = 1;    // each rank gets a multiple of this number of columns, such as the size of a head
  // Matters only if there are fewer units than ranks. true: each unit is replicated on equally many ranks, so
  // the number of ranks must be a multiple of the number of units, and backward adds up the gradients of the
  // replicas. false: some ranks have no columns of this part.
  bool replicate = false;
};

struct LinearShape {
  std::int64_t in = 0, out = 0; // of the whole weight
  DType dtype = DType::F32;     // of weights and activations
  bool bias = false;
  bool sequence_parallel = true;
  // Only for column-parallel layers. backward of a layer with an activation is a UserError.
  ops::Activation activation = ops::Activation::none;
  // Of a column-parallel layer: the matrices side by side of which the weight consists, such as the gate and
  // up matrices of an MLP. Each rank has some columns of each. Empty: one matrix.
  std::vector<ColumnPart> parts = {};
  std::int64_t unit = 1; // each rank gets a multiple of this number of features; unused if there are parts
  std::string tag = {};  // names the layer's calls in errors and traces
};

// Of a call of ColumnParallelLinear::forward.
struct ColumnForwardOptions {
  // Overrides sequence_parallel of the layer's shape for this call. Without sequence parallelism, a pair of
  // layers communicates once instead of twice, which is faster for few tokens. A call that differs from the
  // shape has no backward.
  std::optional<bool> sequence_parallel = {};
};

// Of a call of RowParallelLinear::forward, or of a pair of layers whose second one is row-parallel.
struct ForwardOptions {
  ops::Input residual = {};                   // is added to y, and has its extents
  NormOfSum norm = {};                        // also computes the RMSNorm of y (reduction.h)
  std::optional<bool> sequence_parallel = {}; // as above
};

// The scratch memory of a layer, which grows to the largest tensor.
class LayerMemory {
public:
  explicit LayerMemory(Device device) : device_(device) {}
  // A contiguous tensor, whose contents are undefined. It is valid until the next call.
  ops::Output tensor(ops::detail::StreamAt stream, DType dtype, std::initializer_list<std::int64_t> extents);

private:
  Device device_;
  Buffer buffer_;
};

// The base of both kinds of layer, which owns this rank's shards of the weight and of the bias.
class ParallelLinear {
public:
  ParallelLinear(const ParallelLinear&) = delete;

  const LinearShape& shape() const { return shape_; }
  // The divided features that this rank has: rows of the whole weight of a row-parallel layer, or columns of
  // one part of a column-parallel one, counted from the beginning of the part.
  Rows features(int part = 0) const { return range_of(part, tp_.communicator().rank()); }
  // This rank's part of the weight: [in, own features] of a column-parallel layer, with the columns of all
  // parts side by side, and [own features, out] of a row-parallel one. And of the bias: [own features] or
  // [out]. The memory belongs to the layer, and callers such as optimizers may write to it.
  const ops::Output& weight() const { return weight_; }
  const ops::Output& bias() const { return bias_; } // not given if the layer has none

  // Where weight() and bias() are in the whole tensors (see checkpoint.h). With a part: where the columns of
  // this part are in the whole matrix of the part; weight() has the columns of all parts in this case, too.
  TensorShard weight_shard() const { return weight_shard_of(0, parts()); }
  TensorShard weight_shard(int part) const { return weight_shard_of(part, part + 1); }
  TensorShard bias_shard() const { return bias_shard_of(0, parts()); }
  TensorShard bias_shard(int part) const { return bias_shard_of(part, part + 1); }
  int parts() const { return static_cast<int>(parts_.size()); }

  // Copies this rank's part of the whole weight [in, out] and bias [out] ({} without one), of the layer's
  // dtype, on the device or the host. They may be strided on the CPU; on other devices, rows are contiguous.
  // Blocks until the copies are done.
  void load_full(ops::detail::StreamAt stream, const ops::Input& weight, const ops::Input& bias);
  // Gathers the whole weight [in, out] and bias [out] ({} without one) on every rank. All ranks must call it.
  // Blocks.
  void gather_full(ops::detail::StreamAt stream, const ops::Output& weight, const ops::Output& bias);

protected:
  enum class Divided : std::uint8_t { columns, rows };
  struct Part {
    std::int64_t begin, count, unit; // of its features in the whole weight
    bool replicated;
  };
  static std::vector<Part> parts_of(const LinearShape& shape, bool columns, int ranks);
  Rows range_of(int part, int rank) const;
  std::int64_t own_features(int rank) const; // of all parts
  // Calls body(whole, own) for the ranges of features that correspond in the whole tensor and in a rank's.
  template <class F> void each_part(int rank, const F& body) const;
  TensorShard features_of(int first, int last) const; // parts from first to last (excluded), as a vector
  TensorShard weight_shard_of(int first, int last) const;
  TensorShard bias_shard_of(int first, int last) const;
  void check_whole(const ops::detail::Checks& check, const ops::Array& weight, bool bias,
                   const ops::Array& b) const;
  ParallelLinear(TensorParallel& tp, LinearShape shape, Divided divided);

  TensorParallel& tp_;
  const LinearShape shape_;
  const Divided divided_;
  const std::vector<Part> parts_; // one of a row-parallel layer
  Buffer memory_;
  ops::Output weight_, bias_;
  LayerMemory gathered_;
};

class ColumnParallelLinear : public ParallelLinear {
public:
  ColumnParallelLinear(TensorParallel& tp, LinearShape shape);
  // Computes y [rows, own out] = activation((x weight) + bias). x is [own rows, in], or [rows, in] without
  // sequence parallelism.
  void forward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Output& y,
               const ColumnForwardOptions& options = {});
  // Computes dx (with the extents of x), dweight (of weight()) and dbias (of bias()) from dy [rows, own out],
  // and overwrites them. {} for dweight or dbias: it is not computed. x is that of the forward call. With
  // sequence parallelism, x is gathered again while dx is computed.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const ops::Output& dweight, const ops::Output& dbias);

private:
  void add_replicas(ops::detail::StreamAt stream, const ops::Output& dweight, const ops::Output& dbias);
  std::vector<std::unique_ptr<Communicator>> replicas_; // of each part; null if it has none
};

class RowParallelLinear : public ParallelLinear {
public:
  RowParallelLinear(TensorParallel& tp, LinearShape shape);
  // Computes y = (sum over ranks of (x weight)) + bias + residual, with y and residual [own rows, out], or
  // [rows, out] without sequence parallelism, and x [rows, own in].
  void forward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Output& y,
               const ForwardOptions& options = {});
  // Computes dx [rows, own in], dweight (with the extents of weight()) and dbias (of bias()) from dy, which
  // has the extents of y, and overwrites them. {} for dweight or dbias: it is not computed. x is that of the
  // forward call.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const ops::Output& dweight, const ops::Output& dbias);
};

} // namespace kiln::collectives
KILN_API_END
