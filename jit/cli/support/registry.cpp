// Searches the lists of registered commands and kernels.
#include <kiln/jit/cli/support/registry.h>

#include <algorithm>
#include <string>

namespace kiln::cli {

namespace detail {
constinit const Registered<Command>* first_command = nullptr;
constinit const Registered<RegisteredKernel>* first_kernel = nullptr;
} // namespace detail

namespace {

template <class T> std::vector<const T*> sorted(const detail::Registered<T>* first) {
  std::vector<const T*> all;
  for (auto* link = first; link; link = link->next)
    if (*link->item.summary) all.push_back(&link->item);
  std::stable_sort(all.begin(), all.end(),
                   [](const T* a, const T* b) { return std::string_view(a->name) < b->name; });
  return all;
}

template <class T> const T* find(const detail::Registered<T>* first, std::string_view name) {
  for (auto* link = first; link; link = link->next)
    if (link->item.name == name) return &link->item;
  return nullptr;
}

} // namespace

std::vector<const Command*> commands() {
  auto all = sorted(detail::first_command);
  std::erase_if(
      all, [](const Command* c) { return std::string_view(c->name).find(' ') != std::string_view::npos; });
  return all;
}
std::vector<const Command*> subcommands(std::string_view command) {
  auto all = sorted(detail::first_command);
  const std::string prefix = std::string(command) + ' ';
  std::erase_if(all, [&](const Command* c) { return !std::string_view(c->name).starts_with(prefix); });
  return all;
}
std::vector<const RegisteredKernel*> kernels() { return sorted(detail::first_kernel); }
const Command* find_command(std::string_view name) { return find(detail::first_command, name); }
const RegisteredKernel* find_kernel(std::string_view name) { return find(detail::first_kernel, name); }

} // namespace kiln::cli
