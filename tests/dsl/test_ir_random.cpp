// Tests properties of every kernel on random kernels: valid IR, text that reads back, equal clones.
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <dsl/random_kernel.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>

#include <array>

using namespace kiln;
using namespace kiln::ir;

TEST_CASE("random kernels are valid, print, parse back and clone") {
  std::uint64_t first = test::fresh_seed();
  CAPTURE(first);
  std::array<int, op_count> seen{};
  std::array<int, dtype_count> dtypes{};
  for (std::uint64_t seed = first; seed < first + 400; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {.prints = true});
    std::string text = print(*random.kernel);
    REQUIRE(problems(*random.kernel) == std::vector<std::string>{});
    auto parsed = parse(text, "random");
    REQUIRE(print(*parsed) == text);
    REQUIRE(problems(*parsed) == std::vector<std::string>{});
    REQUIRE(print(*random.kernel->clone()) == text);
    REQUIRE(print(*test::random_kernel(seed, {.prints = true}).kernel) == text);
    REQUIRE(random.extents.size() == random.kernel->body.args.size());
    walk(random.kernel->body, [&](const Op& op) {
      ++seen[static_cast<std::size_t>(op.code)];
      for (const auto& r : op.results)
        ++dtypes[static_cast<std::size_t>(r->type.dtype)];
    });
  }
  // The random kernels must contain every operation, except for atomic_cas, whose results depend on the order
  // of programs.
  for (const OpInfo& op : op_table) {
    INFO(op.name);
    if (op.code != Opcode::AtomicCas) CHECK(seen[static_cast<std::size_t>(op.code)] > 0);
  }
  for (int t = 0; t < dtype_count; ++t) {
    INFO(name(static_cast<DType>(t)));
    CHECK(dtypes[static_cast<std::size_t>(t)] > 0);
  }
}

TEST_CASE("exact random kernels leave out what executions may round differently") {
  std::uint64_t first = test::fresh_seed();
  for (std::uint64_t seed = first; seed < first + 100; ++seed) {
    CAPTURE(seed);
    auto random = test::random_kernel(seed, {.exact = true, .narrow = false});
    REQUIRE(problems(*random.kernel) == std::vector<std::string>{});
    walk(random.kernel->body, [&](const Op& op) {
      INFO(print(op));
      CHECK_FALSE((op.is(Opcode::Exp) || op.is(Opcode::Pow) || op.is(Opcode::Tanh)));
      if (op.is(Opcode::Dot)) CHECK(op.result()->type.dtype == DType::I32);
    });
  }
}
