// Lists the outputs of a launch, one for each parameter that is written, and how each is compared.
#pragma once

#include <kiln/autotune/measure/loaded_candidate.h>
#include <kiln/autotune/measure/memory_plan.h>

#include <cstddef>
#include <vector>

namespace kiln::tune {

struct ComparedOutput {
  int parameter = 0;
  std::size_t block = 0; // of memory; outputs may share one
  std::size_t elements = 0;
  // Which elements of the block belong to this output; empty: all do.
  std::vector<bool> members;
  OutputCheck declared;
  bool sorted = false; // before it is compared
  double varying = 0;  // share of elements that differ between launches with equal inputs

  bool ignored() const { return declared.ignored; }
};

// Returns them in the order of parameters. Throws UserError if the user declares something about a parameter
// that is no output. `sorted` and `varying` are left as they are.
std::vector<ComparedOutput> compared_outputs(const Situation& situation, const MemoryPlan& plan,
                                             const ir::Kernel& kernel);

// Marks each element of a block that an argument touches; empty: all are.
std::vector<bool> members_of(const Argument& argument, const MemoryPlan::Place& place, const Block& block);

// Marks the elements that hold the pattern `poison`.
std::vector<bool> elements_equal_to(const std::vector<unsigned char>& poison,
                                    const std::vector<unsigned char>& values, DType dtype);

// Returns the elements of a block that belong to none of the outputs; empty: there are none.
std::vector<bool> elements_of_none(const std::vector<ComparedOutput>& outputs, std::size_t block,
                                   std::size_t elements);

} // namespace kiln::tune
