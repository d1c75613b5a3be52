// Makes a task for the tuner from a call of an op.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/ops/array.h>
#include <kiln/ops/tunable_call.h>

#include <initializer_list>

namespace kiln::ops::detail {

// The task of one of the launches that the call makes. UserError if none of them can be tuned.
tune::Task task_of_call(const TunableCall& call, DType dtype, const tune::Problem& problem, Device device);

// Registers a call together with the space that all calls of the op look up their configs in.
class TunableOp {
public:
  using SpaceOf = tune::Space (*)(DType dtype, const tune::Problem& problem, Device device);
  TunableOp(const TunableCall& call, SpaceOf space);
};

// A contiguous array without memory, as kiln::stand_in makes for a known dtype and rank.
Array stand_in_array(DType dtype, std::initializer_list<std::int64_t> extents);

} // namespace kiln::ops::detail
