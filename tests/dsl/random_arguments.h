// Data for random kernels: buffers with the extents a kernel was drawn with, random contents and strides,
// and how the outcomes of two executions are compared.
#pragma once

#include <dsl/guarded_memory.h>
#include <dsl/random_kernel.h>
#include <kiln/dsl/ir/arguments.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::test {

struct RandomArgumentsOptions {
  LayoutClass layout = LayoutClass::Any;
  bool strange_strides = false; // with Any: negative ones, and zero for what is only read
  bool overlap = false;         // views of one dtype share memory; run a single program, the order decides
  bool empty_extents = false;   // some inputs have no elements
};

class RandomArguments {
public:
  // Small numbers mostly, with NaN, infinities, zeros of both signs and extremes among them. With `any`
  // layout, axes lie in any order in memory and rows are padded; otherwise as Aligned promises. A page that
  // may not be touched lies before or behind each buffer.
  RandomArguments(const RandomKernel& random, std::uint64_t seed, const RandomArgumentsOptions& options);
  RandomArguments(const RandomKernel& random, std::uint64_t seed, LayoutClass layout = LayoutClass::Any)
      : RandomArguments(random, seed, RandomArgumentsOptions{.layout = layout}) {}
  RandomArguments(const RandomArguments& other); // the same contents in memory of its own
  RandomArguments& operator=(const RandomArguments&) = delete;

  const std::uint64_t* words() const { return words_.data(); }
  std::vector<std::span<std::byte>> memories() const; // what the words point into

  // "" if all views hold the same, padding included. Floats are equal if their bits are, if both are NaN or,
  // for kernels that are not exact, if they differ by at most `tolerance` of the larger.
  std::string difference(const RandomArguments& other, double tolerance = 0) const;

private:
  struct Buffer { // what one view spans
    std::string name;
    DType dtype{};
    int word = 0;               // of its pointer
    std::size_t memory = 0;     // which
    std::size_t first_byte = 0; // in that memory
    std::size_t elements = 0;   // from the lowest to the highest address
    std::int64_t origin = 0;    // of the view's first element, in elements from the lowest
    std::byte* data(const RandomArguments& all) const { return all.memories_[memory].data() + first_byte; }
  };
  struct Memory {
    std::size_t bytes;
    GuardedMemory::Place place;
    std::size_t alignment;
  };
  void place();

  std::vector<std::uint64_t> words_;
  std::vector<Buffer> buffers_;
  std::vector<Memory> sizes_;
  std::vector<GuardedMemory> memories_;
};

} // namespace kiln::test
