// Launch arguments for tests: views over vectors, scalars, and the block of words they make.
#pragma once

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>

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
    pointer(data);
    for (std::int64_t e : extents)
      words_.push_back(static_cast<std::uint64_t>(e));
    for (std::int64_t s : strides)
      words_.push_back(static_cast<std::uint64_t>(s));
    return *this;
  }
  template <class T> Arguments& pointer(T* data) {
    words_.push_back(reinterpret_cast<std::uintptr_t>(data));
    return *this;
  }
  template <class T> Arguments& scalar(T x) {
    words_.push_back(0);
    std::memcpy(&words_.back(), &x, sizeof x);
    return *this;
  }
  const std::uint64_t* words() const { return words_.data(); }

  void run(const ir::Kernel& kernel, const ir::InterpreterOptions& options = {}) const {
    ir::interpret(kernel, words(), ir::grid_of(kernel, words()), options);
  }
  void run_on(const ir::Kernel& kernel, std::vector<std::int64_t> grid,
              const ir::InterpreterOptions& options = {}) const {
    ir::interpret(kernel, words(), grid, options);
  }

private:
  std::vector<std::uint64_t> words_;
};

} // namespace kiln::test
