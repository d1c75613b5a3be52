// Rehearses calls: compiles every kernel that they would launch, and says which, but runs nothing.
//
//   const Rehearsal r = rehearse([&] {
//     ops::linear(stream, stand_in<bf16>({512, 4096}), weight, bias, stand_in<bf16>({512, 4096}));
//     softmax.launch(stream, {BM = 4, BN = 1024}, x, y);
//     assign(stream, y, y * 2.0f);
//   });
//   std::puts(r.to_string().c_str());                // kernels, configs, arguments, grids, workspace
//   set_compile_policy(CompilePolicy::forbid);       // from now on, these sizes must not compile
//
// A service rehearses its calls with the sizes that it expects when it starts, and then forbids compiling
// (compile_policy.h). During a rehearsal, launches of kernels and ops and assign do all their checks and
// compile, on the thread that calls rehearse; other functions of streams, copies and Tensors work as usual.
// Under KILN_TUNE=online, no search begins. The code is the same for other addresses and sizes with the same
// configs and layout classes (dsl/layout_class.h).
//
// Errors are those of the calls. Thread-safe: each thread has a rehearsal of its own.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/config.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/tensor_view.h>

#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln {

// A launch that did not take place.
struct RehearsedLaunch {
  std::string kernel; // its name
  Device device;
  Config config;
  std::vector<std::int64_t> grid;     // the number of programs along each axis; the CPU joins small ones
  std::vector<std::string> arguments; // "f32 [8, 64]", with strides if they are not contiguous; "3"
};

struct Rehearsal {
  std::vector<RehearsedLaunch> launches;
  std::vector<std::string> notes;   // which path a call took, and why, where that is not the usual one
  std::int64_t workspace_bytes = 0; // the most memory for intermediate results that was needed at one time
  std::string to_string() const;    // one line for each launch, each note, and the workspace
};

namespace detail {
Rehearsal rehearse(void (*calls)(const void* self), const void* self);
void* stand_in_memory(std::int64_t bytes);
} // namespace detail

// Calls `calls()`.
template <class F> Rehearsal rehearse(const F& calls) {
  return detail::rehearse([](const void* self) { (*static_cast<const F*>(self))(); }, &calls);
}

// A contiguous view of memory that does not exist, for rehearsals of calls whose tensors are not allocated
// yet. Each has addresses of its own. To launch a kernel with it outside of a rehearsal is a UserError.
template <class T, int Rank> TensorView<T, Rank> stand_in(const Extent (&extents)[Rank]) {
  std::int64_t bytes = sizeof(T);
  for (const Extent& e : extents)
    bytes *= e.value;
  return TensorView<T, Rank>(static_cast<T*>(detail::stand_in_memory(bytes)), extents);
}

} // namespace kiln
KILN_API_END
