// Declares the analytic model of GPUs, with a function for each of its terms.
//
// A program runs on one multiprocessor, which runs as many programs at a time as its registers, shared memory
// and warps allow. The number of programs on the busiest multiprocessor is its share, rounded up; this is the
// tail effect. Loading and multiplying in a loop of one program take the sum of both times. They are hidden
// only by concurrent work: by the other resident programs or by later iterations of the same loop.
#pragma once

#include <kiln/autotune/analytic/roofline.h>

#include <initializer_list>

namespace kiln::tune {

// Returns how many programs fit on a multiprocessor, at least one.
double resident_programs(const Terms& terms, const Machine& machine);
// Returns the number of programs of the busiest multiprocessor relative to an equal share.
double tail_waste(double programs, double multiprocessors);
// Returns the bytes that factors of dots move through shared memory. Each factor is stored once and read by
// all warps that need it; the warps' parts of the tile are about square.
double shared_traffic(const Terms& terms);
// Returns the time of work that is `in_flight` times concurrent: the longest part and what remains visible of
// the others. With one in flight it is the sum.
double overlapped(std::initializer_list<double> parts, double in_flight);

Estimate estimate_gpu(const Terms& terms, const Machine& machine);

} // namespace kiln::tune
