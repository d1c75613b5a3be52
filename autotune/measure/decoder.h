// Converts the elements of an array to doubles.
#pragma once

#include <kiln/dsl/dtype.h>

#include <vector>

namespace kiln::tune {

class Decoder {
public:
  explicit Decoder(DType dtype);
  double operator()(const unsigned char* at) const;

private:
  DType dtype_;
  std::vector<double> table_; // for small floats
};

} // namespace kiln::tune
