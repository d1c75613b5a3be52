// Writes the shards of a rank, with the description of each, to its data file.
#include <kiln/collectives/checkpoint/data_file.h>

#include <kiln/collectives/checkpoint/safetensors_header.h>
#include <kiln/collectives/checkpoint/shard_checks.h>
#include <kiln/collectives/checkpoint/whole_tensors.h>
#include <kiln/jit/runtime/copy.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kiln::collectives {
namespace {

// The saved ranges. Those that follow each other in the whole and in the rank's tensor are one.
std::vector<TensorShard::Range> saved_ranges(const TensorShard& shard) {
  std::vector<TensorShard::Range> ranges;
  for (const TensorShard::Range& range : shard.ranges) {
    if (!range.saved || range.whole.count() == 0) continue;
    TensorShard::Range* last = ranges.empty() ? nullptr : &ranges.back();
    if (last && last->whole.end == range.whole.begin && last->own + last->whole.count() == range.own)
      last->whole.end = range.whole.end;
    else
      ranges.push_back(range);
  }
  return ranges;
}

// Collects bytes of a device in host memory, and appends them to a file in large blocks.
class StagedWriter {
public:
  StagedWriter(Stream& stream, NewFile& file) : stream_(stream), file_(file), block_(4 << 20) {}

  void append(const char* from, std::int64_t bytes) {
    const auto size = static_cast<std::int64_t>(block_.size());
    while (bytes > 0) {
      if (used_ == size) flush();
      const std::int64_t n = std::min(bytes, size - used_);
      if (stream_.device().is_cpu())
        std::memcpy(block_.data() + used_, from, static_cast<std::size_t>(n));
      else
        copy(stream_, block_.data() + used_, from, n);
      used_ += n, from += n, bytes -= n;
    }
  }
  void flush() {
    stream_.synchronize();
    file_.append(block_.data(), used_);
    used_ = 0;
  }

private:
  Stream& stream_;
  NewFile& file_;
  std::vector<char> block_;
  std::int64_t used_ = 0;
};

// A tensor of the file: saved ranges of a rank's tensor, side by side.
class SavedTensor {
public:
  SavedTensor(const NamedShard& tensor, int rank, int ranks)
      : own_(tensor.own), axis_(tensor.shard.axis), ranges_(saved_ranges(tensor.shard)), name_(tensor.name),
        described_{std::string(safetensors_dtype(own_.dtype)), own_.dtype, tensor.shard.extents} {
    std::int64_t& extent = described_.extents[static_cast<std::size_t>(axis_)];
    const std::int64_t whole = std::exchange(extent, 0);
    std::vector<Rows> indices;
    for (const TensorShard::Range& range : ranges_)
      indices.push_back(range.whole), extent += range.whole.count();
    const MatrixExtents matrix = as_matrix(described_.extents);
    described_.bytes = matrix.rows * matrix.columns * size_of(own_.dtype);
    if (ranges_.size() == 1 && extent == whole) return;
    name_ = shard_name(tensor.name, rank, ranks);
    metadata_ = shard_text(tensor.name, tensor.shard.extents, axis_, indices);
  }

  bool empty() const { return ranges_.empty(); }
  int element_bytes() const { return size_of(own_.dtype); }

  // Enters the tensor, whose data begin at this offset, into the header, and returns where they end.
  std::int64_t enter(SafetensorsHeader& header, std::int64_t offset) const {
    SafetensorsFile::Tensor& entry = header.tensors[name_] = described_;
    entry.offset = offset;
    if (!metadata_.empty()) header.metadata[name_] = metadata_;
    return offset + described_.bytes;
  }

  void append_to(StagedWriter& writer) const {
    const auto [rows, columns] = as_matrix(extents_of(own_));
    const std::int64_t element = size_of(own_.dtype), width = columns;
    const auto append = [&](std::int64_t row, std::int64_t column, std::int64_t count) {
      writer.append(static_cast<const char*>(own_.data) + (row * width + column) * element, count * element);
    };
    if (axis_ == 0) {
      for (const TensorShard::Range& range : ranges_)
        append(range.own, 0, range.whole.count() * width);
    } else {
      for (std::int64_t row = 0; row < rows; ++row)
        for (const TensorShard::Range& range : ranges_)
          append(row, range.own, range.whole.count());
    }
  }

private:
  ops::Array own_;
  int axis_;
  std::vector<TensorShard::Range> ranges_;
  std::string name_, metadata_; // in the file; no metadata of a whole tensor
  SafetensorsFile::Tensor described_;
};

} // namespace

void write_data_file(Stream& stream, NewFile& file, const std::vector<NamedShard>& tensors, int rank,
                     int ranks) {
  std::vector<SavedTensor> saved;
  for (const NamedShard& tensor : tensors)
    if (SavedTensor s(tensor, rank, ranks); !s.empty()) saved.push_back(std::move(s));
  // Larger elements come first, so that all are aligned to their size.
  std::stable_sort(saved.begin(), saved.end(), [](const SavedTensor& a, const SavedTensor& b) {
    return a.element_bytes() > b.element_bytes();
  });
  SafetensorsHeader header{{}, metadata_of_shards()};
  std::int64_t offset = 0;
  for (const SavedTensor& tensor : saved)
    offset = tensor.enter(header, offset);
  const std::string begin = safetensors_header(header);
  file.append(begin.data(), static_cast<std::int64_t>(begin.size()));
  StagedWriter writer(stream, file);
  for (const SavedTensor& tensor : saved)
    tensor.append_to(writer);
  writer.flush();
}

} // namespace kiln::collectives
