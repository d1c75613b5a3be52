// Reads a file or the standard input to its end.
#include <kiln/jit/cli/support/read_input.h>

#include <kiln/dsl/error.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace kiln::cli {

std::string read_input(const std::string& path, const std::string& advice) {
  const auto refuse = [&](int why) {
    throw UserError(path + ": cannot be read: " + std::strerror(why) + "; " + advice);
  };
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (!file) refuse(errno);
  std::string text;
  char buffer[4096];
  errno = 0;
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, file))
    text.append(buffer, n);
  // Fopen succeeds for a folder, but reading fails.
  const int why = std::ferror(file) ? errno ? errno : EIO : 0;
  if (file != stdin) std::fclose(file);
  if (why) refuse(why);
  return text;
}

} // namespace kiln::cli
