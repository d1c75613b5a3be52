// Implements copies from files to the memory of devices, in blocks of a few MiB.
#include <kiln/collectives/checkpoint/piece_copy.h>

#include <kiln/collectives/checkpoint/shard_checks.h>
#include <kiln/jit/runtime/copy.h>

#include <algorithm>
#include <cstring>

namespace kiln::collectives {
namespace {

constexpr std::int64_t block_bytes = 4 << 20;

// to[j][i] = from[i][j], in tiles that the L1 cache holds.
template <class T>
void transpose_elements(const char* from_, std::int64_t rows, std::int64_t columns, char* to_) {
  const auto* from = reinterpret_cast<const T*>(from_);
  auto* to = reinterpret_cast<T*>(to_);
  constexpr std::int64_t tile = 32;
  for (std::int64_t i0 = 0; i0 < rows; i0 += tile)
    for (std::int64_t j0 = 0; j0 < columns; j0 += tile)
      for (std::int64_t i = i0; i < std::min(rows, i0 + tile); ++i)
        for (std::int64_t j = j0; j < std::min(columns, j0 + tile); ++j)
          to[j * rows + i] = from[i * columns + j];
}

void transpose(std::int64_t element_bytes, const char* from, std::int64_t rows, std::int64_t columns,
               char* to) {
  switch (element_bytes) {
  case 1: return transpose_elements<std::uint8_t>(from, rows, columns, to);
  case 2: return transpose_elements<std::uint16_t>(from, rows, columns, to);
  case 4: return transpose_elements<std::uint32_t>(from, rows, columns, to);
  default: return transpose_elements<std::uint64_t>(from, rows, columns, to);
  }
}

} // namespace

PieceReader::PieceReader(const SafetensorsFile& file, const SafetensorsFile::Tensor& tensor)
    : tensor_(tensor), data_(file.open()), width_(as_matrix(tensor.extents).columns),
      element_(size_of(*tensor.type)) {}

// Reads to contiguous host memory.
void PieceReader::read(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns,
                       char* to) const {
  if (columns == width_) return data_.read(tensor_, row * width_ * element_, to, rows * width_ * element_);
  for (std::int64_t i = 0; i < rows; ++i)
    data_.read(tensor_, ((row + i) * width_ + column) * element_, to + i * columns * element_,
               columns * element_);
}

std::int64_t PieceReader::copy(Stream& stream, const PieceBox& box, const TensorPlace& to) {
  const bool host = stream.device().is_cpu();
  const std::int64_t row_bytes = box.columns * element_;
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return static_cast<char*>(to.data) + (row * to.width + column) * element_;
  };
  if (host && !to.transposed) {
    if (box.columns == to.width) {
      read(box.from[0], box.from[1], box.rows, box.columns, at(box.to[0], 0));
    } else {
      for (std::int64_t i = 0; i < box.rows; ++i)
        read(box.from[0] + i, box.from[1], 1, box.columns, at(box.to[0] + i, box.to[1]));
    }
    return box.rows * row_bytes;
  }
  const auto put = [&](char* place, const char* from, std::int64_t bytes) {
    if (host)
      std::memcpy(place, from, static_cast<std::size_t>(bytes));
    else
      kiln::copy(stream, place, from, bytes);
  };
  const std::int64_t at_once = std::clamp<std::int64_t>(block_bytes / row_bytes, 1, box.rows);
  staged_.resize(static_cast<std::size_t>(at_once * row_bytes));
  if (to.transposed) transposed_.resize(staged_.size());
  for (std::int64_t i = 0; i < box.rows; i += at_once) {
    const std::int64_t rows = std::min(at_once, box.rows - i);
    read(box.from[0] + i, box.from[1], rows, box.columns, staged_.data());
    if (to.transposed) {
      transpose(element_, staged_.data(), rows, box.columns, transposed_.data());
      for (std::int64_t j = 0; j < box.columns; ++j)
        put(at(box.to[1] + j, box.to[0] + i), transposed_.data() + j * rows * element_, rows * element_);
    } else {
      for (std::int64_t r = 0; r < rows; ++r)
        put(at(box.to[0] + i + r, box.to[1]), staged_.data() + r * row_bytes, row_bytes);
    }
    stream.synchronize(); // the staging memory is used again
  }
  return box.rows * row_bytes;
}

} // namespace kiln::collectives
