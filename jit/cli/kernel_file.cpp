// Finds the kernels that a command line names.
#include <kiln/jit/cli/kernel_file.h>

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cli/dispatch.h>
#include <kiln/jit/cli/registry.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace kiln::cli {

namespace {

std::string read(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file;
  if (!std::filesystem::is_directory(path))
    file.open(path, std::ios::binary); // opening a folder works, reading not
  if (!file.is_open())
    throw UserError(path + ": cannot be read; name a registered kernel or a file with tile IR");
  return {std::istreambuf_iterator<char>(file), {}};
}

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
  auto kernels = ir::parse_all(read(what), what == "-" ? "<stdin>" : what);
  if (kernels.empty()) throw UserError(what + ": there is no kernel in this file");
  for (const auto& kernel : kernels)
    ir::verify(*kernel, ir::Blame::Author);
  return kernels;
}

} // namespace kiln::cli
