// Declares CheckpointWriter and Checkpoint, which save weights that are divided among ranks, and load them on
// any number of ranks.
//
//   CheckpointWriter writer(comm);                          // on all ranks
//   writer.add("layers.0.mlp.up", mlp.up());                // layers.0.mlp.up.weight, and .bias if any
//   writer.add("layers.0.mlp.down", mlp.down());
//   writer.add("norm.weight", norm);                        // a tensor that all ranks have
//   writer.save(stream, "step-1000");
//
//   const Checkpoint checkpoint("step-1000");               // on another number of ranks
//   checkpoint.load(stream, "layers.0.mlp.up", mlp.up());
//   checkpoint.load(stream, "norm.weight", norm);
//
//   const Checkpoint published("llama-3-8b");               // weights of PyTorch: a folder or a .safetensors
//   published.load_parts(stream, {"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"}, mlp.up(),
//                        {.layout = WeightLayout::out_in});
//
// Files: each rank writes one file in the safetensors format (safetensors.h), such as
// model-00001-of-00004.safetensors, and model.safetensors.index.json lists the tensors of all of them. Data
// that several ranks have is saved once. A tensor that one rank saves as a whole keeps its name. A shard of
// the tensor T is named T.shard-00002-of-00004. Under this name, the metadata of the file describes the whole
// tensor: its name, its shape, the axis along which it is divided, and the ranges of indices that the shard
// has, side by side. The dtype of the whole tensor is that of the shard.
//
// Loading: each rank reads the headers of all files, but only those bytes of the data that it needs,
// regardless of how many ranks saved the checkpoint, and whether files have shards or whole tensors. Dtypes
// must be equal, since elements are not converted. Matrices can be transposed (LoadOptions).
//
// Tensors have any dtype, and are contiguous, on the device of the stream.
//
// Errors: UserError with the file, the tensor and the fix. The constructor of Checkpoint checks that the
// shards of each tensor agree and that none is missing, and is safe for corrupt files. If one rank cannot
// write (the disk is full, for example), save throws on all ranks, and the checkpoint that was in the folder
// stays as it was. The same holds if the process dies: the index is replaced atomically, so the folder has
// either the old checkpoint or the new one.
#pragma once

#include <kiln/collectives/layers.h>
#include <kiln/collectives/tensor_shard.h>
#include <kiln/dsl/api.h>

#include <memory>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

// A rank's tensor, and which part of the whole tensor of that name it is.
struct NamedShard {
  std::string name;
  ops::Array own;
  TensorShard shard;
};

// Saves tensors, which it does not own: they, and the communicator, must live until the last save. Contents
// may change between saves. Not thread-safe.
class CheckpointWriter {
public:
  explicit CheckpointWriter(Communicator& comm) : comm_(comm) {}

  // Adds the tensors `name`.weight and, if the layer has a bias, `name`.bias. All ranks must add the same
  // names in the same order, with every form of `add`.
  void add(const std::string& name, const ParallelLinear& layer);
  // Adds each part of a layer (LinearShape::parts) as a tensor of its own, with one name for each part.
  void add_parts(const std::vector<std::string>& names, const ParallelLinear& layer);
  // Adds a tensor of which all ranks have the same copy. One of them saves it.
  void add(const std::string& name, const ops::Input& tensor);
  // Adds this rank's part of a tensor. The `saved` ranges of all ranks must have each index exactly once.
  void add(const std::string& name, const ops::Input& own, const TensorShard& shard);

  // Writes all tensors into the folder, which is created if necessary, and replaces the checkpoint there. All
  // ranks must call it, with the same folder. Blocks. UserError if the folder has a model that Kiln did not
  // write, or if another rank has added other tensors. Only one save into a folder may run at a time.
  void save(ops::detail::StreamAt stream, const std::string& folder) const;

private:
  std::uint64_t hash() const; // of what must be equal on all ranks

  Communicator& comm_;
  std::vector<NamedShard> entries_;
  int whole_ = 0; // entries that all ranks have
};

enum class WeightLayout : std::uint8_t {
  in_out, // [in, out], as in Kiln
  out_in, // [out, in], as in PyTorch's Linear
};
struct LoadOptions {
  // Of matrices in the file; out_in: they are transposed. A wrong layout of a square matrix is not detected.
  WeightLayout layout = WeightLayout::in_out;
};

class Checkpoint {
public:
  struct Tensor { // a whole tensor, even if the files have shards of it
    DType dtype;
    std::vector<std::int64_t> extents;
  };

  // Reads the headers of a safetensors file, or of the files in a folder: those that its index names, or
  // model.safetensors.
  explicit Checkpoint(const std::string& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;

  // The names of all tensors, sorted.
  std::vector<std::string> names() const;
  // UserError if there is no tensor of that name, or if Kiln does not have its dtype.
  Tensor tensor(const std::string& name) const;

  // Load this rank's part of the tensors `name`.weight and, if the layer has a bias, `name`.bias; load_parts:
  // of these for each part of the layer, with one name for each. Not collective: a rank may load alone. All
  // loads block until the data is in memory, and are thread-safe: ranks may share a Checkpoint.
  void load(ops::detail::StreamAt stream, const std::string& name, ParallelLinear& layer,
            LoadOptions options = {}) const;
  void load_parts(ops::detail::StreamAt stream, const std::vector<std::string>& names, ParallelLinear& layer,
                  LoadOptions options = {}) const;
  // Loads a whole tensor, or the part of it that `shard` describes.
  void load(ops::detail::StreamAt stream, const std::string& name, const ops::Output& tensor,
            LoadOptions options = {}) const;
  void load(ops::detail::StreamAt stream, const std::string& name, const ops::Output& own,
            const TensorShard& shard, LoadOptions options = {}) const;

  // The number of bytes of tensor data that all loads together have read so far.
  std::int64_t bytes_read() const;

private:
  struct KILN_INTERNAL State;
  std::unique_ptr<State> state_;
};

} // namespace kiln::collectives
KILN_API_END
