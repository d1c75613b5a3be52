// What most tests of the public interface include, compiled once a program; each test still includes what it uses.
#pragma once

#include "precompiled_standard.h"

#include <kiln/kiln.h>
