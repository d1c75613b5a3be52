// Compiles the arithmetic loops for any machine.
#include "alu_includes.h"

#define KILN_LANES any_machine
#define KILN_LANES_TARGET
#include "alu_lanes.inc"
