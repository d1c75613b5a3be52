// What most tests of internals include, compiled once a program; each test still includes what it uses.
#pragma once

#include "precompiled.h"

#include <fmt/format.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/passes/passes.h>
