// Reads the kernels of a file of tile IR.
#include <kiln/jit/cli/support/kernel_file.h>

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/read_input.h>
#include <kiln/jit/cli/support/registry.h>

namespace kiln::cli {

namespace {

bool is_file_name(const std::string& text) {
  return text == "-" || text.find('/') != std::string::npos || text.find('.') != std::string::npos;
}

[[noreturn]] void unknown_kernel(const std::string& name) {
  std::vector<std::string> names;
  for (const RegisteredKernel* kernel : kernels())
    names.push_back(kernel->name);
  std::string meant = nearest(name, names);
  throw UserError("there is no kernel " + name + "; " +
                  (meant.empty() ? "`kiln kernels` lists those there are, and a file of tile IR ends in .kir"
                                 : "did you mean " + meant + "?"));
}

} // namespace

std::vector<std::unique_ptr<ir::Kernel>> kernels_of_file(const std::string& what) {
  if (!is_file_name(what)) unknown_kernel(what);
  auto kernels = ir::parse_all(read_input(what, "name a registered kernel or a file with tile IR"),
                               what == "-" ? "<stdin>" : what);
  if (kernels.empty()) throw UserError(what + ": there is no kernel in this file");
  for (const auto& kernel : kernels)
    ir::verify(*kernel, ir::Blame::Author);
  return kernels;
}

} // namespace kiln::cli
