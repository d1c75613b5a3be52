// Runs elementwise functions on arrays of any dtypes and ranks through the planner and the kernels of assign.
#pragma once

#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/assign/assign.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

#include <initializer_list>

namespace kiln::ops::detail {

// Records the function: one value for each array, in its dtype; returns the result, which is cast to that of
// the output.
using ElementwiseBody = kiln::detail::Handle (*)(const kiln::detail::Handle* values);

// The values that a body works on.
template <class A> using ElementwiseTile = Tile<A, kiln::detail::assign_block>;
template <class A> ElementwiseTile<A> elementwise_value(const kiln::detail::Handle& value) {
  return ElementwiseTile<A>(kiln::detail::emit_cast(value, dtype_of<A>));
}

// Queues out = body(in...). The arrays broadcast to `out`; any of them may be `out` or overlap it. `name` is
// for the error of a call that must not compile.
void run_elementwise(const char* name, const StreamAt& at, ElementwiseBody body, const Array& out,
                     std::initializer_list<const Array*> in);

} // namespace kiln::ops::detail
