// The arguments that `kiln explain` imagines: contiguous tensors of the sizes that the user or the kernel's
// registration gives.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/passes/cost.h>

#include <string>
#include <vector>

namespace kiln::cli {

struct RegisteredKernel;

struct ExampleParameter {
  std::string name;
  std::vector<std::int64_t>
      extents;       // of a view, or of what is behind a pointer, row-major and contiguous; empty: unknown
  std::string value; // of a scalar; empty: unknown
};

struct Example {
  std::vector<ExampleParameter> parameters; // one for each of the kernel
  passes::KnownArguments arguments;
  bool complete = false; // every word is known
  // For each view, what a launch with such tensors would find; Unit where the extents are unknown.
  std::vector<LayoutClass> layouts;
};

// `sizes` are the user's, "M=1000" or "a=512x64" each, and win over those of `registered` (may be null).
// UserError for what cannot be read or fits no parameter.
Example make_example(const ir::Kernel& recorded, const RegisteredKernel* registered,
                     const std::vector<std::string>& sizes);

// "16x4" as numbers of at least 0; `what` names the text in errors.
std::vector<std::int64_t> parse_extents(const std::string& what, const std::string& text);
const char* layout_text(LayoutClass layout);                     // "aligned"
std::vector<LayoutClass> parse_layouts(const std::string& text); // "unit,any"

} // namespace kiln::cli
