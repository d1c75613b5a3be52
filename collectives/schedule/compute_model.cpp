// Evaluates the roofline model.
#include <kiln/collectives/schedule/compute_model.h>

#include <algorithm>

namespace kiln::collectives {
namespace {

double nanoseconds(double amount, double per_second) {
  return per_second > 0 ? amount / per_second * 1e9 : 0;
}

} // namespace

Nanoseconds ComputeModel::product(std::int64_t m, std::int64_t n, std::int64_t k,
                                  std::int64_t element_bytes) const {
  if (m == 0 || n == 0) return 0;
  const double rows = static_cast<double>((m + row_tile - 1) / row_tile * row_tile),
               columns = static_cast<double>(n), depth = static_cast<double>(k),
               size = static_cast<double>(element_bytes);
  const double read = static_cast<double>(m) * depth + depth * columns + static_cast<double>(m) * columns;
  return later(launch, rounded_up(std::max(nanoseconds(2 * rows * columns * depth, flops_per_second),
                                           nanoseconds(read * size, bytes_per_second))));
}

Nanoseconds ComputeModel::pass(std::int64_t bytes) const {
  return bytes == 0 ? 0
                    : later(launch, rounded_up(nanoseconds(static_cast<double>(bytes), bytes_per_second)));
}

} // namespace kiln::collectives
