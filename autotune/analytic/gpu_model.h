// The analytic model's terms of a GPU, each on its own.
//
// A program lives on one multiprocessor, which runs as many at a time as its registers, shared memory and
// warps allow. The busiest multiprocessor has its share of the programs, rounded up: that is the tail. What
// one program does in a loop (load, then multiply) takes the sum of both; what hides one of them is other
// work that is under way meanwhile: of the programs beside it, or of the same loop's next iterations.
#pragma once

#include <kiln/autotune/analytic/roofline.h>

#include <initializer_list>

namespace kiln::tune {

// Programs that a multiprocessor has room for, at least one.
double resident_programs(const Terms& terms, const Machine& machine);
// Of the busiest multiprocessor: its programs over an equal share of them.
double tail_waste(double programs, double multiprocessors);
// Bytes that factors of dots take through shared memory: each is stored once, and read by all warps that need
// it, whose parts of the tile are about square.
double shared_traffic(const Terms& terms);
// Of work that is done `in_flight` times side by side: the longest part, and what is not hidden of the
// others. One alone adds them up.
double overlapped(std::initializer_list<double> parts, double in_flight);

Estimate estimate_gpu(const Terms& terms, const Machine& machine);

} // namespace kiln::tune
