// Data for random kernels: buffers with the extents a kernel was drawn with, random contents and strides,
// and how the outcomes of two executions are compared.
#pragma once

#include <dsl/random_kernel.h>
#include <kiln/dsl/ir/arguments.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln::test {

class RandomArguments {
public:
  // Small numbers mostly, with NaN, infinities, zeros of both signs and extremes among them. With `any`
  // layout, axes lie in any order in memory and rows are padded; otherwise as Aligned promises.
  RandomArguments(const RandomKernel& random, std::uint64_t seed, LayoutClass layout = LayoutClass::Any);
  RandomArguments(const RandomArguments& other); // the same contents in memory of its own
  RandomArguments& operator=(const RandomArguments&) = delete;

  const std::uint64_t* words() const { return words_.data(); }

  // "" if all views hold the same, padding included. Floats are equal if their bits are, if both are NaN or,
  // for kernels that are not exact, if they differ by at most `tolerance` of the larger.
  std::string difference(const RandomArguments& other, double tolerance = 0) const;

private:
  struct Buffer {
    std::string name;
    DType dtype{};
    std::vector<std::byte> bytes;
    std::size_t first_byte = 0; // where the view starts, 64-byte aligned
    int word = 0;               // of its pointer
    std::size_t elements = 0;
  };
  void allocate(Buffer& buffer, std::size_t elements);

  std::vector<std::uint64_t> words_;
  std::vector<Buffer> buffers_;
};

} // namespace kiln::test
