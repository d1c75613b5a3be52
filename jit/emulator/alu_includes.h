// What alu_lanes.inc needs, included outside of its namespaces.
#pragma once

#include "alu.h"
#include "number.h"
#include "warp.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#define COMMA ,
#if defined(__clang__)
#define KILN_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define KILN_IVDEP _Pragma("GCC ivdep")
#endif
