// Launches ops on batches: all in one kernel if the batch axes merge, and otherwise one for each index of
// those in front of the last one.
#pragma once

#include <kiln/ops/detail/axes.h>
#include <kiln/ops/detail/checks.h>

namespace kiln::ops::detail {

// Gives an operand of a product, of which x is a copy, the batch axes of the result, along which it may
// repeat. They are all but the last two. UserError if it does not broadcast to them.
void broadcast_batch(const Checks& check, const Argument& operand, Array& x, const Argument& result);

// Merges the axes in front of the last `kept` ones, and says in the log if more than one remains. Returns how
// many remain.
int merge_batches(const char* op, std::initializer_list<Array*> arrays, int kept, MergeOrder order);

// Calls launch(part) for the parts of `call` that have one batch axis in front of `kept` other ones.
// call.batched() returns pointers to its arrays, and call.first_batch is the number of its first batch.
template <class Call, class Launch> void launch_batches(const Call& call, int kept, const Launch& launch) {
  Call whole = call, part = call;
  const auto arrays = whole.batched();
  if (arrays[0]->rank == kept + 1) return launch(call);
  for (Array* x : part.batched())
    drop_axis(*x, 0);
  std::int64_t batches = 1;
  for (int i = 1; i < arrays[0]->rank - kept; ++i)
    batches *= arrays[0]->extents[i];
  for (std::int64_t i = 0; i < arrays[0]->extents[0]; ++i) {
    launch_batches(part, kept, launch);
    part.first_batch += batches;
    for (std::size_t x = 0; x < arrays.size(); ++x)
      advance(*part.batched()[x], arrays[x]->strides[0]);
  }
}

} // namespace kiln::ops::detail
