// Provides kernels written as text with words to replace, and data of any dtype for them.
#pragma once

#include <dsl/kernel_arguments.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/semantics.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/passes.h>

#include <random>
#include <string>

namespace kiln::test {

// The text with each "$T" (and so on) replaced.
inline std::unique_ptr<ir::Kernel> parsed(std::string text,
                                          std::vector<std::pair<std::string, std::string>> words) {
  for (const auto& [from, to] : words)
    for (std::size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  auto kernel = ir::parse(text, "test");
  ir::verify(*kernel);
  passes::PassOptions options;
  return passes::lower_generic(*kernel, options);
}

struct Data { // elements of any dtype
  DType dtype;
  std::vector<std::byte> bytes;
  Data(DType t, std::size_t n) : dtype(t), bytes(n * static_cast<std::size_t>(size_of(t))) {}
  void set(std::size_t i, ir::Cell x) { ir::store_cell(dtype, at(i), x); }
  ir::Cell get(std::size_t i) { return ir::load_cell(dtype, at(i)); }
  std::byte* at(std::size_t i) { return bytes.data() + i * static_cast<std::size_t>(size_of(dtype)); }
  void randomize(std::mt19937_64& random, int most = 6) {
    for (std::size_t i = 0; i * static_cast<std::size_t>(size_of(dtype)) < bytes.size(); ++i) {
      auto n = static_cast<std::int64_t>(random() % static_cast<unsigned>(2 * most + 1)) - most;
      set(i, is_float(dtype) ? ir::cell_of_float(dtype, n)
                             : ir::cell_of_integer(dtype, is_signed(dtype) ? n : n + most));
    }
  }
};

// Calls `f` with a zero of the unsigned integer type that has the size of the dtype.
template <class F> void with_type(DType t, F&& f) {
  switch (size_of(t)) {
  case 1: return f(std::uint8_t{});
  case 2: return f(std::uint16_t{});
  case 4: return f(std::uint32_t{});
  default: return f(std::uint64_t{});
  }
}
// Adds a view of `data`, which may have any dtype: the words are the same as for integers of its size, and
// the strides are in elements.
inline void add_view(Arguments& arguments, Data& data, std::vector<std::int64_t> extents,
                     std::vector<std::int64_t> strides = {}) {
  with_type(data.dtype, [&](auto zero) {
    arguments.view(reinterpret_cast<decltype(zero)*>(data.bytes.data()), extents, strides);
  });
}

} // namespace kiln::test
