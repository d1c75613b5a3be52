// Writes a text as a whole.
#include <kiln/autotune/write_file.h>

#include <kiln/jit/base/new_file.h>

namespace kiln::tune {

void write_file(const std::string& path, std::string_view text, const std::string& what) {
  NewFile file(path, {.what = what});
  file.append(text.data(), static_cast<std::int64_t>(text.size()));
  file.finish();
  file.publish();
}

} // namespace kiln::tune
