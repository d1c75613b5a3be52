// Includes and macros that alu_lanes.inc needs outside of its namespaces.
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
#define KILN_IVDEP // clang would warn about loops that stay scalar
#define KILN_WIDE_VECTORS ""
#else
#define KILN_IVDEP _Pragma("GCC ivdep")
#define KILN_WIDE_VECTORS ",prefer-vector-width=512"
#endif
