// Defines ComputeModel, which says how long computations last on a machine that one does not have: the
// roofline model, with the loss of products with few rows.
//
//   const ComputeModel h100{.flops_per_second = 800e12, .bytes_per_second = 3e12, .row_tile = 128, .launch = 3000};
//   h100.product(m, n, k, 2);       // nanoseconds of a bf16 product
#pragma once

#include <kiln/collectives/timeline.h>
#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::collectives {

struct ComputeModel {
  double flops_per_second = 0; // of products; 0: they take no time
  double bytes_per_second = 0; // of memory; 0: it takes no time
  std::int64_t row_tile = 1;   // products take as long as if their rows were a multiple of this
  Nanoseconds launch = 0;      // of each computation

  // A product of m x k and k x n elements of `element_bytes` bytes.
  Nanoseconds product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t element_bytes) const;
  // A pass over so many bytes.
  Nanoseconds pass(std::int64_t bytes) const;
  bool is_free() const { return flops_per_second == 0 && bytes_per_second == 0 && launch == 0; }
};

} // namespace kiln::collectives
KILN_API_END
