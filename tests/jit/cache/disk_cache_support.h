// Provides helpers for tests of the kernel cache: temporary folders, recorded warnings and random payloads.
#pragma once

#include "temporary_folder.h"

#include <kiln/jit/cache/disk_cache.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace disk_cache_test {

namespace fs = std::filesystem;
using namespace kiln::cache;

using kiln::test::TemporaryFolder;

// A cache that records its warnings.
struct RecordingCache {
  std::vector<std::string> warnings;
  DiskCache cache;

  explicit RecordingCache(const fs::path& folder, Limits limits = {}) : cache(folder, limits) {
    cache.set_warning_handler([this](std::string_view text) { warnings.emplace_back(text); });
  }
};

inline Key random_key(std::mt19937_64& random) { return {random(), random()}; }

inline std::vector<char> random_payload(std::mt19937_64& random, std::size_t size) {
  std::vector<char> bytes(size);
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

inline std::vector<char> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes a file with the owner and mode that entries have.
inline void write_file(const fs::path& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("cannot write " + path.string());
  close(fd);
}
inline void write_file(const fs::path& path, const std::vector<char>& bytes) {
  write_file(path, std::string_view(bytes.data(), bytes.size()));
}

inline void set_age(const fs::path& path, long seconds) {
  timespec times[2] = {};
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  if (utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
    throw std::runtime_error("cannot set the time of " + path.string());
}

inline long age_of(const fs::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) throw std::runtime_error("cannot stat " + path.string());
  return std::time(nullptr) - status.st_mtim.tv_sec;
}

inline fs::path entry_path(const fs::path& folder, const Key& key) { return folder / entry_file_name(key); }

inline const Metadata matmul = {.kernel = "matmul", .config = "BM=128 BN=256", .target = "x86-64 znver4"};

} // namespace disk_cache_test
