// Creates arguments for random kernels, with random contents and strides, and compares the results of two
// executions.
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
  bool strange_strides = false; // with Any: also negative strides, and zero for views that are only read
  bool overlap = false;         // views of one dtype share memory; the test must run a single program then
  bool empty_extents = false;   // some inputs have no elements
};

class RandomArguments {
public:
  // The contents are mostly small numbers, and some NaN, infinities, zeros of both signs and very large and
  // very small numbers. With layout class Any, the axes are in any order in memory, and rows are padded.
  // There is an inaccessible page before or after each buffer.
  RandomArguments(const RandomKernel& random, std::uint64_t seed, const RandomArgumentsOptions& options);
  RandomArguments(const RandomKernel& random, std::uint64_t seed, LayoutClass layout = LayoutClass::Any)
      : RandomArguments(random, seed, RandomArgumentsOptions{.layout = layout}) {}
  RandomArguments(const RandomArguments& other); // copies the contents to new memory
  RandomArguments& operator=(const RandomArguments&) = delete;

  const std::uint64_t* words() const { return words_.data(); }
  std::vector<std::span<std::byte>> memories() const; // the memory that the words point to

  // "" if all views have the same contents, including the padding; otherwise the first difference. Floats are
  // equal if their bits are equal, if both are NaN, or if they differ by at most `tolerance` times the larger
  // one.
  std::string difference(const RandomArguments& other, double tolerance = 0) const;

private:
  struct Buffer { // the memory of one view
    std::string name;
    DType dtype{};
    int word = 0;               // the index of its pointer among the words
    std::size_t memory = 0;     // the index of its memory
    std::size_t first_byte = 0; // where it begins in that memory
    std::size_t elements = 0;   // how many elements there are from the lowest to the highest address
    std::int64_t origin = 0;    // the position of the view's first element among them
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
