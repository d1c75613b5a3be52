// Declares CheckpointWriter and Checkpoint, which save the weights of several ranks and load them on any number
// of ranks.
//
//   CheckpointWriter writer(comm);                          // on all ranks
//   writer.add("layers.0.mlp.up", mlp.up());                // layers.0.mlp.up.weight, and .bias if it has one
//   writer.add("layers.0.mlp.down", mlp.down());
//   writer.add("norm.weight", norm);                        // a tensor that all ranks have
//   writer.save(stream, "step-1000");
//
//   const Checkpoint checkpoint("step-1000");               // on another number of ranks
//   checkpoint.load(stream, "layers.0.mlp.up", mlp.up());
//   checkpoint.load(stream, "norm.weight", norm);
//
//   const Checkpoint published("llama-3-8b");               // of PyTorch: a folder, or a .safetensors file
//   published.load_parts(stream, {"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"}, mlp.up(),
//                        {.layout = WeightLayout::out_in});
//
// Files: each rank writes one file in the safetensors format (safetensors.h), model-00001-of-00004.safetensors
// and so on, and model.safetensors.index.json lists the tensors of all of them. What several ranks have is
// saved once. A tensor that one rank saves as a whole has its own name there. A shard of the tensor T is named
// T.shard-00002-of-00004, and the file's metadata has under this name the whole tensor: its name, its shape,
// the axis and the ranges of its indices that the shard has, side by side. Its dtype is that of the shard.
//
// Loading: each rank reads the headers of all files, and of their data only the bytes that it needs, wherever
// they are: it makes no difference how many ranks saved, or whether a file has whole tensors. Nothing is
// converted: dtypes must be equal.
//
// Dtypes: all. Tensors are contiguous, on the device of the stream.
//
// Errors: UserError with the file, the tensor and the fix. The constructor of Checkpoint checks that the shards
// of each tensor agree and that none is missing, for files of any contents. If one rank cannot write (the disk
// is full, for example), save throws on all ranks, and the checkpoint that was in the folder stays as it was.
// The same holds if the process dies: until the index is replaced, which a file system does as a whole, the
// folder has the old checkpoint, and after that the new one.
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

// Refers to the tensors that are added, which must live until the last save; their contents may change.
class CheckpointWriter {
public:
  explicit CheckpointWriter(Communicator& comm) : comm_(comm) {}

  // All ranks add the same names in the same order.
  void add(const std::string& name, const ParallelLinear& layer);
  // Saves each part of a layer (LinearShape::parts) as a tensor of its own.
  void add_parts(const std::vector<std::string>& names, const ParallelLinear& layer);
  // A tensor of which all ranks have the same copy. One of them saves it.
  void add(const std::string& name, const ops::Input& tensor);
  // A part of a tensor. Together the ranks must save each index once.
  void add(const std::string& name, const ops::Input& own, const TensorShard& shard);

  // Writes all tensors into the folder, which is made if there is none, and replaces the checkpoint there.
  // All ranks must call it. Blocks. UserError if the folder has a model that Kiln did not write, or if another
  // rank has added other tensors. Only one checkpoint may be saved in a folder at a time.
  void save(ops::detail::StreamAt stream, const std::string& folder) const;

private:
  std::uint64_t hash() const; // of what must be equal on all ranks

  Communicator& comm_;
  std::vector<NamedShard> entries_;
  int whole_ = 0; // entries that all ranks have
};

enum class WeightLayout : std::uint8_t {
  in_out, // of Kiln: [in, out]
  out_in, // of PyTorch's Linear: [out, in]
};
struct LoadOptions {
  WeightLayout layout = WeightLayout::in_out; // of matrices in the file
};

class Checkpoint {
public:
  struct Tensor { // a whole one
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

  // Load this rank's part. They block until the data is there. Thread-safe: ranks may share a Checkpoint.
  void load(ops::detail::StreamAt stream, const std::string& name, ParallelLinear& layer,
            LoadOptions options = {}) const;
  void load_parts(ops::detail::StreamAt stream, const std::vector<std::string>& names, ParallelLinear& layer,
                  LoadOptions options = {}) const;
  // A whole tensor.
  void load(ops::detail::StreamAt stream, const std::string& name, const ops::Output& tensor,
            LoadOptions options = {}) const;
  void load(ops::detail::StreamAt stream, const std::string& name, const ops::Output& own,
            const TensorShard& shard, LoadOptions options = {}) const;

  // The bytes of tensors that loads have read so far.
  std::int64_t bytes_read() const;

private:
  struct KILN_INTERNAL State;
  std::unique_ptr<State> state_;
};

} // namespace kiln::collectives
KILN_API_END
