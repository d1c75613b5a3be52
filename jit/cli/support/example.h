// Makes up the arguments of a launch for `kiln explain`: contiguous tensors, with sizes from the user or from
// the kernel's registration.
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
      extents;       // of a view, or of the memory of a pointer, row-major and contiguous; empty: unknown
  std::string value; // of a scalar; empty: unknown
};

struct Example {
  std::vector<ExampleParameter> parameters; // one for each parameter of the kernel
  passes::KnownArguments arguments;
  bool complete = false; // all words are known
  // For each view, the class that a launch with such a tensor would find; Unit if the extents are unknown.
  std::vector<LayoutClass> layouts;

  // The packed arguments of a launch (dsl/ir/arguments.h). All of them must be known.
  std::vector<std::uint64_t> words() const;
};

// `sizes` are those of the user, such as "M=1000" or "a=512x64". They take precedence over those of
// `registered`, which may be null. UserError for text that cannot be parsed or that matches no parameter.
Example make_example(const ir::Kernel& recorded, const RegisteredKernel* registered,
                     const std::vector<std::string>& sizes);

// Parses "16x4" as numbers of at least 0. Errors call the text `what`.
std::vector<std::int64_t> parse_extents(const std::string& what, const std::string& text);
const char* layout_text(LayoutClass layout);                     // "aligned"
std::vector<LayoutClass> parse_layouts(const std::string& text); // "unit,any"

} // namespace kiln::cli
