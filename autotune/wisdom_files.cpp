// Exports and adds the wisdom files of applications (tuned.h).
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/records/maintenance.h>
#include <kiln/autotune/tuned.h>
#include <kiln/autotune/write_file.h>

namespace kiln::tune {

std::size_t export_wisdom(const std::string& path, const std::string& kernel) {
  Filter filter;
  filter.kernel = kernel;
  const auto records = export_winners(RecordStore::standard(), filter);
  write_file(path, wisdom_text(records), "the wisdom file");
  return records.size();
}

std::size_t add_wisdom(const std::string& path) { return Database::standard().add_wisdom(path); }

} // namespace kiln::tune
