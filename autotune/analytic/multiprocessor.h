// Tabulates the throughput per clock of one multiprocessor of an NVIDIA GPU, by compute capability.
//
// The numbers of lanes are from the arithmetic throughput table of the CUDA C++ programming guide. Tensor
// cores and boards are from NVIDIA's architecture white papers and data sheets of T4, A100, A10, L40S, H100
// SXM, B200 and RTX PRO 6000 Blackwell: dense rates divided by multiprocessors and boost clock. Dots become
// warp-level instructions (mma.sync), which reach about 62 % of Hopper's tensor cores (Luo et al.,
// "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024); for sm_100 the same throughput per
// clock is assumed. GeForce boards accumulate 16-bit products in f32 at half the rate of other boards of
// their compute capability.
#pragma once

namespace kiln::tune {

struct Multiprocessor {
  int sm;                   // compute capability
  double f32, f64;          // flops per clock of fused multiply-adds
  double tensor16, tensor8; // operations per clock of tensor cores: f16 and bf16, i8
  double warp_share;        // fraction of these that warp-level instructions reach
  double clock;             // clock of the board in hertz
  double memory;            // bytes per second of the board's memory, per multiprocessor
};

// Returns the row of this compute capability, else that of the newest older one, else the first row.
const Multiprocessor& multiprocessor_of(int sm);

} // namespace kiln::tune
