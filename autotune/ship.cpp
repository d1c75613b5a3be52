// Wisdom files by path, for applications.
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/tuned.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace kiln::tune {

std::size_t export_wisdom(const std::string& path, const std::string& kernel) {
  const auto records = RecordStore::standard().bests(kernel);
  std::ofstream file(path, std::ios::binary);
  file << wisdom_text(records);
  file.close();
  if (!file) throw UserError("wisdom file " + path + " cannot be written: " + std::strerror(errno));
  return records.size();
}

std::size_t add_wisdom(const std::string& path) { return Database::standard().add_wisdom(path); }

} // namespace kiln::tune
