// Finds the whole tensors of which files have shards, and what a file says about a shard.
#pragma once

#include <kiln/collectives/checkpoint/safetensors.h>
#include <kiln/collectives/schedule/shards.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::collectives {

// A part of a whole tensor that a file has: ranges of indices along an axis, side by side.
struct SavedPiece {
  const SafetensorsFile* file = nullptr;
  const SafetensorsFile::Tensor* data = nullptr;
  std::vector<Rows> ranges;
};

struct WholeTensor {
  std::string dtype;
  std::optional<DType> type;
  std::vector<std::int64_t> extents;
  int axis = 0;
  std::vector<SavedPiece> pieces; // which together have each index once
};

// The files of a checkpoint, and for each its tensors that count.
struct OpenFiles {
  std::deque<SafetensorsFile> files; // whose addresses stay
  std::vector<std::vector<std::string>> names;
};

// UserError unless the pieces of each tensor agree, do not overlap, and none is missing.
std::map<std::string, WholeTensor> whole_tensors(const OpenFiles& open);

// What the names of shards contain, and those of whole tensors do not.
inline constexpr const char* shard_mark = ".shard-";
// up.weight.shard-00002-of-00004, of rank 1.
std::string shard_name(const std::string& tensor, int rank, int ranks);

// The entry of a shard in the metadata of its file.
std::string shard_text(const std::string& tensor, const std::vector<std::int64_t>& extents, int axis,
                       const std::vector<Rows>& ranges);

// The entries in the metadata of a file with shards: its version, and what libraries for PyTorch expect.
std::map<std::string, std::string> metadata_of_shards();

} // namespace kiln::collectives
