// Defines ComputeModel, which says how long computations last on a machine: the roofline model, with the loss
// of efficiency of skinny products.
//
//   const ComputeModel h100{.flops_per_second = 800e12, .bytes_per_second = 3e12, .row_tile = 128};
//   h100.product(m, n, k, 2);       // nanoseconds of a bf16 product
#pragma once

#include <kiln/collectives/schedule/nanoseconds.h>
#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::collectives {

struct ComputeModel {
  double flops_per_second = 0; // of matrix products, 2 m n k operations each; 0: infinitely fast
  double bytes_per_second = 0; // memory bandwidth; 0: infinitely fast
  std::int64_t row_tile = 1;   // m is rounded up to a multiple of this, so skinny products lose efficiency
  Nanoseconds launch = 0;      // overhead of each computation

  // A product of m x k and k x n elements of `element_bytes` bytes.
  Nanoseconds product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t element_bytes) const;
  // A pass over so many bytes.
  Nanoseconds pass(std::int64_t bytes) const;
  bool is_free() const { return flops_per_second == 0 && bytes_per_second == 0 && launch == 0; }
};

} // namespace kiln::collectives
KILN_API_END
