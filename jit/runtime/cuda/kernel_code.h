// A compiled kernel on a CUDA device, and its launch. Not for users.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/runtime/cuda/module.h>
#include <kiln/jit/runtime/stream.h>

#include <span>
#include <vector>

namespace kiln::cuda {

// Immutable, so thread-safe.
struct KernelCode {
  struct View { // a parameter
    int first_word, rank;
    std::int64_t element_bytes;
    bool written;
  };
  Function function;
  int warps;
  int grid_rank; // extents of the grid among the entry point's parameters
  std::int64_t shared_bytes;
  int words;               // of the arguments
  std::vector<View> views; // all of them, or none if none is written
};

// Views that the kernel writes, and those that it reads if it writes any.
std::vector<KernelCode::View> views_of(const ir::Kernel& lowered);
// Whether memory that one view writes may be another's or be written through two indices. Views that
// interleave without meeting count, which costs barriers and nothing else.
bool elements_meet(std::span<const KernelCode::View> views, const std::uint64_t* words);

inline constexpr int most_parameters = 544; // of an entry point, all of 8 bytes

// Queues all programs of the grid. `words` are the launch's arguments (dsl/ir/arguments.h). The stream is one
// of the kernel's device. Allocates nothing. Errors as those of cuda::launch.
void launch(Stream& stream, const KernelCode& code, std::uint64_t* words, std::span<const std::int64_t> grid,
            SourceLocation site);

} // namespace kiln::cuda
