// Defines the table of throughputs of one multiprocessor.
#include <kiln/autotune/analytic/multiprocessor.h>

namespace kiln::tune {

const Multiprocessor& multiprocessor_of(int sm) {
  static constexpr Multiprocessor table[] = {
      // sm, f32, f64, tensor16, tensor8, warp_share, clock, memory
      {75, 128, 4, 1024, 2048, 1, 1.59e9, 8e9},            // T4
      {80, 128, 64, 2048, 4096, 1, 1.41e9, 1.44e10},       // A100
      {86, 256, 4, 1024, 2048, 1, 1.695e9, 8.3e9},         // A10
      {89, 256, 4, 1024, 2048, 1, 2.52e9, 6.1e9},          // L40S
      {90, 256, 128, 4096, 8192, 0.62, 1.98e9, 2.54e10},   // H100 SXM
      {100, 256, 128, 8192, 16384, 0.31, 1.965e9, 5.4e10}, // B200
      {120, 256, 4, 1024, 2048, 1, 2.617e9, 9.5e9},        // RTX PRO 6000 Blackwell
  };
  const Multiprocessor* found = &table[0];
  for (const Multiprocessor& row : table)
    if (row.sm <= sm) found = &row;
  return *found;
}

} // namespace kiln::tune
