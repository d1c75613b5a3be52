// Evaluates a whole-tensor expression with the kernel that assign compiles for it, or in the interpreter.
#pragma once

#include "jit/cpu/cpu_runner.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/runtime/assign/assign_kernel.h>

namespace kiln::test {

// Does what assign does, but executes the kernel with a given function.
template <class T, int Rank, class E>
void evaluate(const TensorView<T, Rank>& out, const E& expression, bool interpreted,
              const cpu::Target& target = cpu::host_target()) {
  auto whole = detail::as_whole_of<T>(expression);
  using W = decltype(whole);
  detail::AssignOperand operands[W::leaves];
  detail::AssignOperand* next = operands;
  whole.gather(next);
  const detail::AssignSite& site = detail::assign_site<T, W>;
  auto here = detail::Location::current();
  detail::AssignPlan plan;
  detail::plan_assign(plan, site, {out.data(), Rank, out.extents(), out.strides()}, operands, here);
  if (plan.elements == 0) return;
  REQUIRE_FALSE(detail::needs_temporary(plan));
  detail::choose_tile(plan, Device::cpu());
  detail::AssignKey key;
  detail::make_key(key, plan);
  auto kernel = detail::record_assign(site, key, here);
  INFO(ir::print(*kernel));
  ir::verify(*kernel);
  std::vector<std::uint64_t> words(detail::max_assign_words);
  detail::pack_assign(words.data(), site, plan, operands, here);
  const auto lowered = passes::lower_generic(*kernel, {});
  const auto grid = ir::grid_of(*lowered, words.data());
  if (options().keep.tile) keep_kernel(*kernel, {}); // then kernels are not compiled: other runs do that
  if (interpreted || options().keep.tile)
    ir::interpret(*lowered, words.data(), grid);
  else
    compiled_once(*kernel, {}, false, target)->run(words.data(), grid);
}

} // namespace kiln::test
