// Compiles the arithmetic loops for machines with AVX2 and FMA.
#ifdef __x86_64__
#include "alu_includes.h"

#define KILN_LANES avx2
#define KILN_LANES_TARGET __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")))
#include "alu_lanes.inc"
#endif
