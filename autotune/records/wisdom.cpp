// Parses and writes wisdom files.
#include <kiln/autotune/records/wisdom.h>

#include <kiln/autotune/records/json_cursor.h>
#include <kiln/autotune/records/line.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::tune {
namespace {

constexpr std::size_t most_wisdom_bytes = 64 << 20;

// Returns a record's version, or 1 if it has none.
int version_of(std::string_view text) {
  int version = 1;
  JsonCursor json(text);
  json.object([&](std::string_view name) {
    if (name == "v")
      version = json.integer<int>();
    else
      json.skip();
  });
  return version;
}

void read_one(std::string_view text, LineReader& reader, Wisdom& wisdom) {
  if (version_of(text) > record_version) {
    ++wisdom.future;
    return;
  }
  std::shared_ptr<const Record> record = reader.read(text);
  if (record && record->result.ok())
    wisdom.records.push_back(std::move(record));
  else
    ++wisdom.bad;
}

// Returns a position as "line 3, column 14".
std::string place(std::string_view text, const char* at) {
  const std::string_view before = text.substr(0, static_cast<std::size_t>(at - text.data()));
  const auto line_start = before.rfind('\n') + 1; // 0 on the first line
  return fmt::format("line {}, column {}", std::count(before.begin(), before.end(), '\n') + 1,
                     before.size() - line_start + 1);
}

} // namespace

bool looks_like_wisdom(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == text.npos || text[start] != '{') return false;
  text.remove_prefix(text.find_first_not_of(" \t\r\n", start + 1) == text.npos
                         ? text.size()
                         : text.find_first_not_of(" \t\r\n", start + 1));
  return text.starts_with("\"kiln_wisdom\"");
}

Wisdom read_wisdom(std::string_view text) {
  Wisdom wisdom;
  int version = 0;
  LineReader reader;
  JsonCursor json(text);
  json.object([&](std::string_view name) {
    if (name == "kiln_wisdom")
      version = json.integer<int>();
    else if (name == "records")
      json.array([&] {
        const char* start = json.position();
        json.skip();
        if (json.ok() && version <= wisdom_version)
          read_one({start, static_cast<std::size_t>(json.position() - start)}, reader, wisdom);
      });
    else
      json.skip();
  });
  if (version > wisdom_version) {
    wisdom = {};
    wisdom.problem =
        fmt::format("its version is {}, but this Kiln reads versions up to {}", version, wisdom_version);
  } else if (version < 1) {
    wisdom = {};
    wisdom.problem =
        "it is not a wisdom file, which is JSON that begins with {\"kiln_wisdom\":1,\"records\":[";
  } else if (!json.ok() || !json.at_end()) {
    wisdom = {};
    wisdom.problem =
        "it is not valid JSON from " + place(text, json.ok() ? json.position() : json.failed_at()) + " on";
  }
  return wisdom;
}

Wisdom read_wisdom_file(const std::filesystem::path& path) {
  Wisdom wisdom;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    wisdom.problem = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    wisdom.problem = "it is not a regular file";
  } else if (static_cast<std::size_t>(status.st_size) > most_wisdom_bytes) {
    wisdom.problem = fmt::format("it has {} bytes, more than a wisdom file may have", status.st_size);
  } else {
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t size = 0;
    ssize_t n = 1;
    while (size < text.size() && n != 0) {
      n = read(fd, text.data() + size, text.size() - size);
      if (n < 0 && errno != EINTR) break;
      size += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    }
    if (n < 0)
      wisdom.problem = std::strerror(errno);
    else
      wisdom = read_wisdom(std::string_view(text).substr(0, size));
  }
  if (fd >= 0) close(fd);
  return wisdom;
}

std::string wisdom_text(const std::vector<std::shared_ptr<const Record>>& records) {
  std::string text = fmt::format("{{\"kiln_wisdom\":{},\"records\":[", wisdom_version);
  for (std::size_t i = 0; i < records.size(); ++i)
    text += (i ? ",\n" : "\n") + to_json(*records[i]);
  return text + "\n]}\n";
}

} // namespace kiln::tune
