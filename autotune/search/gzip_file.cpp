// Implements reading and writing of whole files with zlib.
#include "gzip_file.h"

#include <kiln/dsl/error.h>

#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <unistd.h>

namespace kiln::tune {

namespace {

std::string system_error() { return std::strerror(errno); }

} // namespace

std::string read_gzip_file(const std::string& path) {
  constexpr std::size_t most = 1u << 30;
  errno = 0;
  const gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw UserError("cannot open " + path + ": " + system_error() + "; check the name");
  std::string text;
  std::string problem;
  bool too_large = false;
  for (std::vector<char> step(1u << 20);;) {
    const int got = gzread(file, step.data(), static_cast<unsigned>(step.size()));
    if (got > 0) {
      too_large = text.size() + static_cast<std::size_t>(got) > most;
      if (too_large) break;
      text.append(step.data(), static_cast<std::size_t>(got));
      continue;
    }
    int code = Z_OK;
    const char* message = gzerror(file, &code);
    if (code == Z_ERRNO)
      problem = system_error();
    else if (code == Z_BUF_ERROR)
      problem = "it is truncated";
    else if (code < 0)
      problem = std::string("it is damaged (") + message + ")";
    break;
  }
  const int closed = gzclose_r(file);
  if (too_large)
    throw UserError("cannot read " + path + ": it holds more than a gigabyte of text; give a smaller file");
  if (closed != Z_OK && problem.empty())
    problem = closed == Z_BUF_ERROR ? "it is truncated" : "it could not be read to the end";
  if (!problem.empty()) throw UserError("cannot read " + path + ": " + problem + "; get the file again");
  return text;
}

void write_gzip_file(const std::string& path, const std::string& text) {
  const std::string part = path + "." + std::to_string(getpid()) + ".part";
  errno = 0;
  const gzFile file = gzopen(part.c_str(), path.ends_with(".gz") ? "wb9" : "wbT");
  bool ok = file != nullptr;
  if (file) {
    for (std::size_t at = 0; ok && at < text.size();) {
      const unsigned step = static_cast<unsigned>(std::min<std::size_t>(text.size() - at, 1u << 20));
      ok = gzwrite(file, text.data() + at, step) == static_cast<int>(step);
      at += step;
    }
    ok = gzclose_w(file) == Z_OK && ok;
  }
  ok = ok && std::rename(part.c_str(), path.c_str()) == 0;
  if (ok) return;
  const std::string reason = errno ? system_error() : "the disk may be full";
  std::remove(part.c_str());
  throw UserError("cannot write " + path + ": " + reason + "; choose another folder");
}

} // namespace kiln::tune
