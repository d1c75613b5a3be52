// Includes the whole language: dimensions, tiles, views, operators, functions and control flow.
#pragma once

#include <kiln/dsl/dim.h>
#include <kiln/dsl/tile.h>

#include <kiln/dsl/operators.h>

#include <kiln/dsl/functions.h>
#include <kiln/dsl/shape.h>

#include <kiln/dsl/branch.h>
#include <kiln/dsl/debug.h>
#include <kiln/dsl/join.h>
#include <kiln/dsl/lookup.h>
#include <kiln/dsl/loop.h>
#include <kiln/dsl/reduce.h>
#include <kiln/dsl/sort.h>
#include <kiln/dsl/var.h>
#include <kiln/dsl/view.h>

#include <kiln/dsl/detail/call_mistakes.h>
#include <kiln/dsl/detail/view_mistakes.h>

#include <kiln/dsl/address.h>
#include <kiln/dsl/random.h>
#include <kiln/dsl/raw.h>
#include <kiln/dsl/recipe.h>
