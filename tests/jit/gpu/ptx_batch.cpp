// Joins the PTX of kernels: one header, each declaration once, and entry points with other names.
#include "ptx_batch.h"

#include <sstream>
#include <string_view>

namespace kiln::test {
namespace {

constexpr std::string_view entry = ".visible .entry ", header_end = ".address_size 64\n";

// The name of an object in its declaration, which ends with a semicolon: "shared" in
// ".extern .shared .align 16 .b8 shared[];". Empty for other lines.
std::string object_name(const std::string& line) {
  const bool declares = line.starts_with(".extern .shared ") || line.starts_with(".global ");
  const std::size_t end = line.find('[');
  if (!declares || !line.ends_with(';') || end == std::string::npos) return "";
  const std::size_t begin = line.rfind(' ', end) + 1;
  return line.substr(begin, end - begin);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

} // namespace

bool PtxBatch::add(const std::string& ptx) {
  const std::size_t declarations = ptx.find(header_end), begin = ptx.find(entry);
  if (declarations == std::string::npos || begin == std::string::npos || begin < declarations) return false;
  const std::size_t name_begin = begin + entry.size(), name_end = ptx.find('(', name_begin);
  if (name_end == std::string::npos || ptx.find(entry, name_end) != std::string::npos) return false;

  std::map<std::string, std::string> objects = objects_;
  std::istringstream lines(
      ptx.substr(declarations + header_end.size(), begin - declarations - header_end.size()));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("\t//") || line.starts_with("//")) continue;
    const std::string name = object_name(line);
    if (name.empty() || objects.try_emplace(name, line).first->second != line) return false;
  }

  const std::string old_name = ptx.substr(name_begin, name_end - name_begin);
  const std::string new_name = "kernel_" + std::to_string(size_);
  std::string kernel = ptx.substr(name_end);
  replace_all(kernel, old_name + "_param_", new_name + "_param_");
  kernels_ += std::string(entry) + new_name + kernel;
  objects_ = std::move(objects);
  if (size_++ == 0) header_ = ptx.substr(0, declarations + header_end.size());
  return true;
}

gpu::Assembled PtxBatch::assemble() {
  std::string text = std::move(header_);
  for (const auto& [name, declaration] : objects_)
    text += declaration + "\n";
  text += kernels_;
  *this = PtxBatch(arch_);
  return gpu::assemble(text, arch_);
}

} // namespace kiln::test
