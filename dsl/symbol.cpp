// Implements the table of interned names.
#include <kiln/dsl/symbol.h>

#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>

namespace kiln {

namespace {
struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
} // namespace

const char* intern(std::string_view text) {
  static std::mutex mutex;
  // The table is never destroyed, because destructors of static objects may still use symbols.
  static auto* table = new std::unordered_set<std::string, Hash, std::equal_to<>>;
  std::lock_guard lock(mutex);
  auto known = table->find(text); // a known name allocates nothing
  return (known != table->end() ? known : table->emplace(text).first)->c_str();
}

} // namespace kiln
