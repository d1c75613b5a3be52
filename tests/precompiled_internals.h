// Precompiled header of tests of internals: what most of them include. Each test still includes what it uses.
// It does not include <kiln/kiln.h>: tests of tile IR use both namespaces kiln and kiln::ir, and each has a
// Kernel.
#pragma once

#include "precompiled_standard.h"

#include <fmt/format.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/passes/passes.h>
