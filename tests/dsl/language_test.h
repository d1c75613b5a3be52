// Records, verifies and binds kernels for tests of the language, and draws random data for them.
#pragma once

#include "keep_kernel.h"
#include "kernel_arguments.h"
#include "test_seed.h"

#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/dsl/language.h>
#include <kiln/dsl/record.h>
#include <kiln/jit/passes/passes.h>

#include <catch2/catch.hpp>

#include <random>

namespace kiln::test {

template <class F> std::unique_ptr<ir::Kernel> recorded(const F& function, const Config& config = {}) {
  auto kernel = record("test", function, config);
  ir::verify(*kernel);
  return kernel;
}

// A kernel that is bound and simplified, as the interpreter and every back end take it.
template <class F> std::unique_ptr<ir::Kernel> bound(const F& function, const Config& config) {
  auto kernel = recorded(function, config);
  keep_kernel(*kernel, config);
  passes::PassOptions options;
  options.config = config;
  auto lowered = passes::lower_generic(*kernel, options);
  ir::verify(*lowered);
  return lowered;
}

inline std::mt19937_64& random_source() {
  static const auto seed = fresh_seed();
  static std::mt19937_64 source(seed);
  return source;
}
// Seeds random_source() and prints the seed if a check fails. Every randomised test begins with it.
#define KILN_RANDOM_SEED()                                                                                   \
  const auto random_seed = kiln::test::fresh_seed();                                                         \
  INFO("seed " << random_seed);                                                                              \
  kiln::test::random_source().seed(random_seed)

inline std::int64_t random_integer(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random_source());
}
template <class T> std::vector<T> random_values(std::int64_t n, double low = -1, double high = 1) {
  std::uniform_real_distribution<double> numbers(low, high);
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<T>(static_cast<float>(numbers(random_source()))));
  return values;
}

// How often an operation occurs in a kernel, including nested regions.
inline int count(const ir::Kernel& kernel, ir::Opcode code) {
  int n = 0;
  ir::walk(kernel.body, [&](const ir::Op& op) { n += op.is(code); });
  return n;
}

} // namespace kiln::test
