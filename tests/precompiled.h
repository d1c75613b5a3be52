// Precompiled header of tests of the public interface: what most of them include. Each test still includes
// what it uses.
#pragma once

#include "precompiled_standard.h"

#include <kiln/kiln.h>
