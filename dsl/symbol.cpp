// The table of interned names.
#include <kiln/dsl/symbol.h>

#include <mutex>
#include <string>
#include <unordered_set>

namespace kiln {

const char* intern(std::string_view text) {
  static std::mutex mutex;
  static auto* table = new std::unordered_set<std::string>; // never destroyed: symbols outlive static objects
  std::lock_guard lock(mutex);
  return table->emplace(text).first->c_str();
}

} // namespace kiln
