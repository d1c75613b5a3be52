// Implements the texts of errno values.
#include <kiln/jit/base/errno_text.h>

#include <cerrno>
#include <cstring>

namespace kiln {

bool no_descriptor_left(int error) { return error == EMFILE || error == ENFILE; }

std::string errno_text(int error) {
  std::string text = std::strerror(error);
  if (error == EMFILE)
    text += ": this process has no file descriptor left; close files, or raise its limit (ulimit -n, "
            "RLIMIT_NOFILE)";
  if (error == ENFILE) text += ": the system has no file descriptor left; close files of other programs";
  return text;
}

} // namespace kiln
