// Rehearses calls: compiles and lists every kernel that they would launch, without running any.
//
//   const Rehearsal r = rehearse([&] {
//     ops::linear(stream, stand_in<bf16>({512, 4096}), weight, bias, stand_in<bf16>({512, 4096}));
//     softmax.launch(stream, {BM = 4, BN = 1024}, x, y);
//     assign(stream, y, y * 2.0f);
//   });
//   std::puts(r.to_string().c_str());                // kernels, configs, arguments, grids, workspace
//   set_compile_policy(CompilePolicy::forbid);       // from now on, these sizes must not compile
//
// When a service starts, it can rehearse its calls with the sizes that it expects, and then forbid compiling
// (kernel/compile_policy.h). During a rehearsal, launches of kernels, ops and `assign` do all their checks
// and compile, if they are called on the thread that calls `rehearse`; other functions of streams, copies and
// Tensors work as usual, so they do run. With KILN_TUNE=online, no search begins. The compiled code also
// serves calls with other addresses, and with other sizes that have the same configs and layout classes
// (dsl/layout_class.h).
//
// `rehearse` throws the errors that the calls throw. Thread-safe: each thread has a rehearsal of its own.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/config.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/tensor_view.h>

#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln {

// A launch that a call would have made.
struct RehearsedLaunch {
  std::string kernel; // the name of the kernel
  Device device;
  Config config;
  std::vector<std::int64_t> grid;     // programs along each axis, before a CPU merges small ones
  std::vector<std::string> arguments; // "f32 [8, 64]", with strides if not contiguous; numbers as "3"
};

struct Rehearsal {
  std::vector<RehearsedLaunch> launches;
  std::vector<std::string> notes;   // the paths of calls that do not take the usual one, and the reasons
  std::int64_t workspace_bytes = 0; // the most memory for intermediate results that is needed at one time
  std::string to_string() const;    // one line for each launch, for each note, and for the workspace
};

namespace detail {
Rehearsal rehearse(void (*calls)(const void* self), const void* self);
void* stand_in_memory(std::int64_t bytes);
} // namespace detail

// Calls `calls()` once, on this thread, and returns the launches that it would have made.
template <class F> Rehearsal rehearse(const F& calls) {
  return detail::rehearse([](const void* self) { (*static_cast<const F*>(self))(); }, &calls);
}

// Returns a contiguous view without memory, for rehearsals of calls whose tensors are not allocated yet. No
// two stand-ins overlap. Launching a kernel with one outside of a rehearsal throws a UserError; the host must
// not access its elements.
template <class T, int Rank> TensorView<T, Rank> stand_in(const Extent (&extents)[Rank]) {
  std::int64_t bytes = sizeof(T);
  for (const Extent& e : extents)
    bytes *= e.value;
  return TensorView<T, Rank>(static_cast<T*>(detail::stand_in_memory(bytes)), extents);
}

} // namespace kiln
KILN_API_END
