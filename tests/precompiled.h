// Includes what most tests of the public interface include, as a precompiled header. Each test still includes
// what it uses.
#pragma once

#include "precompiled_standard.h"

#include <kiln/kiln.h>
