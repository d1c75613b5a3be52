// The language: everything that a kernel is written with.
#pragma once

#include <kiln/dsl/control.h>
#include <kiln/dsl/debug.h>
#include <kiln/dsl/raw.h>
#include <kiln/dsl/recipe.h>
#include <kiln/dsl/reduce.h>
#include <kiln/dsl/shape.h>
#include <kiln/dsl/view.h>
