// Writes to a temporary file next to the target and renames it.
#include <kiln/autotune/write_file.h>

#include <kiln/dsl/error.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace kiln::tune {

void write_file(const std::string& path, std::string_view text, const std::string& what) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool there = fs::exists(path, ignored);
  const bool direct = there && !fs::is_regular_file(path, ignored);
  // If the path is a symbolic link, the link stays and its target is replaced.
  const std::string target = there && !direct ? fs::canonical(path, ignored).string() : path;
  const std::string at = direct ? path : target + ".new-" + std::to_string(getpid());
  const auto fail = [&](bool made) {
    const std::string why = std::strerror(errno);
    if (made && !direct) unlink(at.c_str());
    throw UserError(what + " " + path + " cannot be written: " + why);
  };
  errno = 0;
  std::FILE* file = std::fopen(at.c_str(), "wb");
  if (!file) fail(false);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (std::fclose(file) != 0) fail(true);
  errno = error;
  if (!written) fail(true);
  if (!direct && std::rename(at.c_str(), target.c_str()) != 0) fail(true);
}

} // namespace kiln::tune
