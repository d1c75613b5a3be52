// Copies a part of a matrix in a file to a part of a matrix in the memory of a device, perhaps transposed.
#pragma once

#include <kiln/collectives/checkpoint/safetensors.h>
#include <kiln/jit/runtime/stream.h>

#include <cstdint>
#include <vector>

namespace kiln::collectives {

// Rows and columns of a matrix as it is in the file.
struct PieceBox {
  std::int64_t from[2]; // the first row and column in the file's tensor
  std::int64_t to[2];   // and in the memory, also counted in rows and columns of the file
  std::int64_t rows, columns;
};

// A row-major matrix of `width` columns. Transposed: the rows of the file are its columns.
struct TensorPlace {
  void* data;
  std::int64_t width, element_bytes;
  bool transposed;
};

class PieceReader {
public:
  // Opens the file.
  PieceReader(const SafetensorsFile& file, const SafetensorsFile::Tensor& tensor);
  // Returns the number of bytes that it has read. Blocks.
  std::int64_t copy(Stream& stream, const PieceBox& box, const TensorPlace& to);

private:
  void read(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns, char* to) const;

  const SafetensorsFile::Tensor& tensor_;
  const SafetensorsFile::Data data_;
  const std::int64_t width_, element_;
  std::vector<char> staged_, transposed_;
};

} // namespace kiln::collectives
