// Holds the code of a kernel for a CUDA device, and launches it. Internal.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/runtime/cuda/module.h>
#include <kiln/jit/runtime/stream.h>

#include <span>
#include <vector>

namespace kiln::cuda {

// Immutable, and therefore thread-safe.
struct KernelCode {
  struct View { // a parameter of the kernel
    int first_word, rank;
    std::int64_t element_bytes;
    bool written;
  };
  Function function;
  int warps;
  int grid_rank; // number of extents of the grid among the entry point's parameters
  std::int64_t shared_bytes;
  int words;               // number of argument words
  std::vector<View> views; // all views, or none if the kernel writes none
};

// The views that the kernel writes, and, if there are any, those that it reads.
std::vector<KernelCode::View> views_of(const ir::Kernel& lowered);
// Whether memory that is written through one view may be accessed through another one, or through another
// index. True also for interleaved views without common elements; this only costs barriers.
bool elements_meet(std::span<const KernelCode::View> views, const std::uint64_t* words);

inline constexpr int most_parameters = 544; // of an entry point, at 8 bytes each

// Queues all programs of the grid. `words` are the arguments of the launch (dsl/ir/arguments.h). The stream
// must be of the kernel's device. Does not allocate. Throws the errors of cuda::launch.
void launch(Stream& stream, const KernelCode& code, std::uint64_t* words, std::span<const std::int64_t> grid,
            SourceLocation site);

} // namespace kiln::cuda
