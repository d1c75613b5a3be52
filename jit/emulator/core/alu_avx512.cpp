// Compiles the arithmetic loops for machines with AVX-512.
#ifdef __x86_64__
#include "alu_includes.h"

#define KILN_LANES avx512
#define KILN_LANES_TARGET                                                                                    \
  __attribute__((target(                                                                                     \
      "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt" KILN_WIDE_VECTORS)))
#include "alu_lanes.inc"
#endif
