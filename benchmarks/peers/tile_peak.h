// Measures the peak rate of bf16 products in AMX tile registers.
#pragma once

#include <samples/machine_limits.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace benchmarks {

#if defined(__x86_64__)

// Computes four independent sums of 16 x 16: with their operands they fill the eight registers. Returns the
// number of operations.
__attribute__((target("amx-tile,amx-bf16"))) inline double multiply_tiles(std::int64_t rounds) {
  alignas(64) unsigned char config[64] = {1};
  for (int tile = 0; tile < 8; ++tile)
    config[16 + 2 * tile] = 64, config[48 + tile] = 16; // bytes in a row, number of rows
  asm volatile("" : : "r"(config) : "memory");          // GCC 12 assumes that the next line reads 8 bytes
  _tile_loadconfig(config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

// Billions of bf16 operations per second of all threads together, or 0 without AMX. The rate of 8-bit
// integers is twice as high.
inline double measure_tile_gflops(int threads) {
  return kiln::Device::cpu().properties().isa.find("amx-bf16") != std::string::npos
             ? samples::limits::best_gops(threads, [] { return multiply_tiles(100'000); })
             : 0;
}

#else

inline double measure_tile_gflops(int) { return 0; }

#endif

} // namespace benchmarks
