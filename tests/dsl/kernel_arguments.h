// Builds launch arguments for tests from views over vectors, scalars and pointers.
//
// Running a kernel with them runs it in the interpreter and on the CPU, and requires that both write the same
// results (see kernel_arguments.cpp). The test then sees the results of the interpreter.
#pragma once

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace kiln::test {

class Arguments {
public:
  template <class T>
  Arguments& view(T* data, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides = {}) {
    if (strides.empty()) {
      strides.assign(extents.size(), 1);
      for (std::size_t i = extents.size(); i-- > 1;)
        strides[i - 1] = strides[i] * extents[i];
    }
    std::int64_t low = 0, high = 1;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (extents[i] <= 0) high = low;
      (strides[i] < 0 ? low : high) += strides[i] * (extents[i] - 1);
    }
    add_pointer(data, low, high);
    for (std::int64_t e : extents)
      words_.push_back(static_cast<std::uint64_t>(e));
    for (std::int64_t s : strides)
      words_.push_back(static_cast<std::uint64_t>(s));
    return *this;
  }
  // Declares that the elements of the last view are sums of terms of at most this size, which may cancel. Two
  // executions may then differ by the rounding errors of such terms.
  Arguments& sums_terms_of(double size) {
    regions_.back().term = size;
    return *this;
  }
  // A pointer to memory with that many elements.
  template <class T> Arguments& pointer(T* data, std::int64_t elements = 1) {
    add_pointer(data, 0, elements);
    return *this;
  }
  template <class T> Arguments& scalar(T x) {
    words_.push_back(0);
    std::memcpy(&words_.back(), &x, sizeof x);
    return *this;
  }
  const std::uint64_t* words() const { return words_.data(); }

  void run(const ir::Kernel& kernel, const ir::InterpreterOptions& options = {}) const {
    run_on(kernel, ir::grid_of(kernel, words()), options);
  }
  void run_on(const ir::Kernel& kernel, std::vector<std::int64_t> grid,
              const ir::InterpreterOptions& options = {}) const;

private:
  struct Region { // memory that an argument points to
    std::size_t word;
    std::byte* begin;
    std::size_t bytes;
    double term = 0; // the argument of sums_terms_of
  };
  using Bytes = std::vector<std::vector<std::byte>>;

  template <class T> void add_pointer(T* data, std::int64_t low, std::int64_t high) {
    auto* begin = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(data)) +
                  low * static_cast<std::int64_t>(sizeof(T));
    std::size_t bytes = high > low ? static_cast<std::size_t>(high - low) * sizeof(T) : 0;
    regions_.push_back({words_.size(), begin, bytes, 0});
    words_.push_back(reinterpret_cast<std::uintptr_t>(data));
  }
  Bytes contents() const;
  void restore(const Bytes& contents) const;
  void require_equal(const ir::Kernel& kernel, const Bytes& expected, const Bytes& found) const;

  std::vector<std::uint64_t> words_;
  std::vector<Region> regions_;
};

} // namespace kiln::test
