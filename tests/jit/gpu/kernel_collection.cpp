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

// The position of a whole word at or after `at`, or npos.
std::size_t find_word(const std::string& text, std::string_view word, std::size_t at) {
  for (; (at = text.find(word, at)) != std::string::npos; at += word.size()) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return at;
  }
  return at;
}

bool has_word(const std::string& text, std::string_view word) {
  return find_word(text, word, 0) != std::string::npos;
}

std::string replace_word(const std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t found; (found = find_word(text, from, at)) != std::string::npos; at = found + from.size())
    result.append(text, at, found - at).append(to);
  return result.append(text, at);
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

std::vector<std::pair<DType, DType>> possible_dtype_changes(const CollectedKernel& kernel) {
  std::vector<std::pair<DType, DType>> found;
  for (int f = 0; f < dtype_count; ++f) {
    const auto from = static_cast<DType>(f);
    if (info(from).cls == DTypeClass::Bool || !has_word(kernel.text, name(from))) continue;
    for (int t = 0; t < dtype_count; ++t) {
      const auto to = static_cast<DType>(t);
      if (f != t && info(to).cls != DTypeClass::Bool && is_float(from) == is_float(to))
        found.emplace_back(from, to);
    }
  }
  return found;
}

std::optional<CollectedKernel> with_other_dtype(const CollectedKernel& kernel, DType from, DType to) {
  CollectedKernel other = kernel;
  other.text = replace_word(kernel.text, name(from), name(to));
  try {
    if (!ir::problems(*ir::parse(other.text)).empty()) return std::nullopt;
  } catch (const UserError&) { // the dtype cannot represent a constant
    return std::nullopt;
  }
  other.name += " with " + std::string(name(to)) + " for " + std::string(name(from));
  return other;
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
