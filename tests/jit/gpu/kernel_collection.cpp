// Reads registered and kept kernels, and replaces their dtypes.
#include "kernel_collection.h"

#include <kiln/dsl/dtype.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

// The rest of the line that begins with `label`.
std::string line_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + label.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%'; }

std::string replace_word(const std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = 0;;) {
    std::size_t found = text.find(from, at);
    if (found == std::string::npos) return result + text.substr(at);
    const std::size_t end = found + from.size();
    const bool whole =
        (found == 0 || !is_word(text[found - 1])) && (end == text.size() || !is_word(text[end]));
    result += text.substr(at, found - at);
    result += whole ? to : from;
    at = end;
  }
}

} // namespace

std::vector<CollectedKernel> registered_kernels() {
  std::vector<CollectedKernel> found;
  for (const cli::RegisteredKernel* registered : cli::kernels()) {
    if (!registered->record) continue; // registered by a test of the command itself
    const Config config = Config::parse(registered->config);
    auto kernel = registered->record(config);
    found.push_back(
        {registered->name, ir::print(*kernel), config, cli::make_example(*kernel, registered, {}).layouts});
  }
  return found;
}

std::vector<CollectedKernel> kept_kernels(const std::string& folder) {
  std::vector<CollectedKernel> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".kir") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CollectedKernel kernel;
    const auto recorded = std::move(ir::parse_all(text, entry.path().string()).front());
    kernel.name = recorded->name;
    kernel.text = ir::print(*recorded);
    kernel.config = Config::parse(line_after(text, "// config "));
    kernel.layouts = cli::parse_layouts(without_spaces(line_after(text, "// layouts ")));
    found.push_back(std::move(kernel));
  }
  // If a kernel ran with several configs, keep the one that sorts first, so that the order of files does not
  // matter.
  std::ranges::sort(found, {}, [](const CollectedKernel& k) {
    return std::tuple(k.text, k.config.to_string(), k.layouts);
  });
  auto same = std::ranges::unique(found, {}, &CollectedKernel::text);
  found.erase(same.begin(), same.end());
  return found;
}

std::vector<CollectedKernel> with_other_dtypes(const std::vector<CollectedKernel>& kernels) {
  std::vector<CollectedKernel> found;
  std::set<std::string> known;
  for (const CollectedKernel& kernel : kernels)
    known.insert(kernel.text);
  for (const CollectedKernel& kernel : kernels)
    for (int f = 0; f < dtype_count; ++f)
      for (int t = 0; t < dtype_count; ++t) {
        const auto from = static_cast<DType>(f), to = static_cast<DType>(t);
        if (info(from).cls == DTypeClass::Bool || is_float(from) != is_float(to)) continue;
        if (info(to).cls == DTypeClass::Bool) continue;
        CollectedKernel other = kernel;
        other.text = replace_word(kernel.text, name(from), name(to));
        if (!known.insert(other.text).second) continue;
        try {
          if (!ir::problems(*ir::parse(other.text)).empty()) continue;
        } catch (const UserError&) {
          continue; // the dtype cannot represent a constant
        }
        other.name += " with " + std::string(name(to)) + " for " + std::string(name(from));
        found.push_back(std::move(other));
      }
  return found;
}

std::unique_ptr<ir::Kernel> lowered(const CollectedKernel& kernel, const Config& config,
                                    const std::vector<LayoutClass>& layouts) {
  auto recorded = ir::parse(kernel.text, kernel.name);
  ir::verify(*recorded, ir::Blame::Author);
  Config sizes;
  for (const Binding& b : config)
    if (!is_option(b.name)) sizes.set(b.name, b.value);
  return passes::lower_generic(*recorded, {sizes, layouts});
}

} // namespace kiln::test
