// What one multiprocessor of an NVIDIA GPU does in a clock, by compute capability.
//
// Lanes are those of the CUDA C++ programming guide's table of arithmetic throughput; tensor cores and boards
// those of NVIDIA's architecture white papers and data sheets of T4, A100, A10, L40S, H100 SXM, B200 and RTX
// PRO 6000 Blackwell: dense rates over multiprocessors and boost clock. Dots become warp-level instructions
// (mma.sync), which reach about 62 % of Hopper's tensor cores (Luo et al., "Benchmarking and Dissecting the
// Nvidia Hopper GPU Architecture", 2024); that they do as much a clock on sm_100 is assumed. GeForce boards
// add up 16-bit products in f32 at half the rate of others of their compute capability.
#pragma once

namespace kiln::tune {

struct Multiprocessor {
  int sm;                   // compute capability
  double f32, f64;          // flops a clock of fused multiply-adds
  double tensor16, tensor8; // operations a clock of tensor cores: f16 and bf16, i8
  double warp_share;        // of those, what warp-level instructions reach
  double clock;             // hertz of the board
  double memory;            // bytes a second of the board's memory, for each of its multiprocessors
};

// Of this compute capability, or else the newest that is older; of the first one if none is.
const Multiprocessor& multiprocessor_of(int sm);

} // namespace kiln::tune
