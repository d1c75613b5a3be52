// Implements the conversion of elements to doubles, with a table for small floats.
#include <kiln/autotune/measure/decoder.h>

#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/semantics.h>

#include <cstring>

namespace kiln::tune {

Decoder::Decoder(DType dtype) : dtype_(dtype) {
  if (dtype == DType::F32 || dtype == DType::F64 || !is_float(dtype)) return;
  table_.resize(std::size_t{1} << (8 * size_of(dtype)));
  for (std::size_t bits = 0; bits < table_.size(); ++bits)
    table_[bits] = decode_float(dtype, static_cast<std::uint16_t>(bits));
}

double Decoder::operator()(const unsigned char* at) const {
  if (dtype_ == DType::F32) {
    float f;
    std::memcpy(&f, at, sizeof f);
    return f;
  }
  if (dtype_ == DType::F64) {
    double d;
    std::memcpy(&d, at, sizeof d);
    return d;
  }
  if (!is_float(dtype_)) {
    const ir::Cell cell = ir::load_cell(dtype_, at);
    return is_unsigned(dtype_) ? static_cast<double>(cell)
                               : static_cast<double>(static_cast<std::int64_t>(cell));
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(size_of(dtype_)));
  return table_[bits];
}

} // namespace kiln::tune
