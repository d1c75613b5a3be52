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
// A column-parallel layer has some columns of the weight on each rank, a row-parallel one some rows. Weights
// are [in, out], the transpose of PyTorch's, and undefined until load_full. Rank r of P has the features from
// n * r / P to n * (r + 1) / P (end excluded), so P need not divide n. A layer refers to its TensorParallel,
// and that to its communicator; destroy them in reverse order.
//
// With sequence parallelism (the default), activations outside of a pair of such layers are divided among the
// ranks by rows: a column-parallel layer gathers its input while it multiplies, and a row-parallel one
// scatters the sums of its results while it multiplies. Without it, activations are whole on every rank: a
// column-parallel layer sends nothing in its forward, and a row-parallel one reduces to all ranks.
//
// The gradients of a bias that all ranks have (of a row-parallel layer) are the same on all ranks.
//
// Bits: the results of a column-parallel layer are those of one rank. What is summed over ranks has the same
// bits in every run and by every schedule, but not for every number of ranks.
//
// Each layer has workspaces that grow to the largest call. Its tensors are on the device of the communicator.
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

// A matrix that is part of a column-parallel layer's weight.
struct ColumnPart {
  std::int64_t columns = 0;
  std::int64_t unit = 1; // the ranks get multiples of so many columns
  // If there are fewer units than ranks, which must then be a multiple of them: true gives several ranks the
  // same unit, of which each is a replica. The gradients of replicas are added up.
  bool replicate = false;
};

struct LinearShape {
  std::int64_t in = 0, out = 0; // of the whole weight
  DType dtype = DType::F32;     // of weights and activations
  bool bias = false;
  bool sequence_parallel = true;
  ops::Activation activation = ops::Activation::none; // of a column-parallel layer; then backward is an error
  // Of a column-parallel layer: the matrices side by side of which the weight consists, such as those of the
  // gate and of the rest of an MLP. Each rank has its columns of all of them. Empty: one matrix.
  std::vector<ColumnPart> parts = {};
  std::int64_t unit = 1; // the ranks get multiples of so many features, such as the size of a head
  std::string tag = {};
};

struct ForwardOptions {
  ops::Input residual = {}; // of layers that end with a sum over ranks, with the extents of y: is added to it
  NormOfSum norm = {};      // of the same layers: normalises y, too
  // For this call, instead of what the layer's shape says. Without sequence parallelism, few tokens take one
  // exchange for each pair of layers instead of two. There is no backward for such a call.
  std::optional<bool> sequence_parallel = {};
  std::uint64_t seed = 0; // of attention with dropout: another one for each step and layer
};

// Memory for tensors of one layer, which grows.
class LayerMemory {
public:
  explicit LayerMemory(Device device) : device_(device) {}
  // A contiguous tensor, whose contents are undefined. It is valid until the next call.
  ops::Output tensor(ops::detail::StreamAt stream, DType dtype, std::initializer_list<std::int64_t> extents);

private:
  Device device_;
  Buffer buffer_;
};

// What both kinds have in common: a shard of a weight, and of a bias.
class ParallelLinear {
public:
  ParallelLinear(const ParallelLinear&) = delete;

  const LinearShape& shape() const { return shape_; }
  // The features of this rank: rows of the weight, or columns of one of its parts, counted within the part.
  Rows features(int part = 0) const { return range_of(part, tp_.communicator().rank()); }
  // This rank's part of the weight, [in, own features] or [own features, out], and of the bias: [own
  // features] of a column-parallel layer, [out] of a row-parallel one. The columns of the parts are side by
  // side.
  const ops::Output& weight() const { return weight_; }
  const ops::Output& bias() const { return bias_; } // not given if the layer has none

  // Which part of the whole tensors these are: of the whole weight and bias, or of those of one part, which
  // checkpoint.h uses. weight() has the columns of all parts also in the latter case.
  TensorShard weight_shard() const { return weight_shard_of(0, parts()); }
  TensorShard weight_shard(int part) const { return weight_shard_of(part, part + 1); }
  TensorShard bias_shard() const { return bias_shard_of(0, parts()); }
  TensorShard bias_shard(int part) const { return bias_shard_of(part, part + 1); }
  int parts() const { return static_cast<int>(parts_.size()); }

  // Copies this rank's part of the whole weight [in, out] and bias [out], which are contiguous or strided, on
  // the device or the host, and of the layer's dtype.
  void load_full(ops::detail::StreamAt stream, const ops::Input& weight, const ops::Input& bias);
  // Gathers the whole weight [in, out] and bias [out] on every rank. All ranks must call it. Blocks.
  void save_full(ops::detail::StreamAt stream, const ops::Output& weight, const ops::Output& bias);

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
  // y [rows, own out] = activation(x weight + bias); x [own rows, in], or [rows, in] without sequence
  // parallelism.
  void forward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Output& y,
               const ForwardOptions& options = {});
  // Computes dx (with the extents of x), dweight (of weight()) and dbias (of bias()) from dy [rows, own out],
  // and overwrites them. dweight and dbias may be {}. With sequence parallelism, x is gathered again while dx
  // is computed.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const ops::Output& dweight, const ops::Output& dbias);

private:
  void add_replicas(ops::detail::StreamAt stream, const ops::Output& dweight, const ops::Output& dbias);
  std::vector<std::unique_ptr<Communicator>> replicas_; // of each part; null if it has none
};

class RowParallelLinear : public ParallelLinear {
public:
  RowParallelLinear(TensorParallel& tp, LinearShape shape);
  // y [own rows, out] = sum over ranks of x weight, plus bias and residual, which are optional; x [rows,
  // own in]. Without sequence parallelism y and residual are [rows, out].
  void forward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Output& y,
               const ForwardOptions& options = {});
  // Computes dx [rows, own in], dweight (with the extents of weight()) and dbias (of bias()) from dy, which
  // has the extents of y, and overwrites them. dweight and dbias may be {}.
  void backward(ops::detail::StreamAt stream, const ops::Input& x, const ops::Input& dy,
                const ops::Output& dx, const ops::Output& dweight, const ops::Output& dbias);
};

} // namespace kiln::collectives
KILN_API_END
