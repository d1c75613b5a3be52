// Checks the folders in which Kiln keeps things, and the program that runs the measuring processes.
#include <kiln/autotune/cli/doctor.h>

#include <kiln/autotune/measure/find_command.h>
#include <kiln/autotune/records/store.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cache/folder.h>
#include <kiln/jit/cli/support/text.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace kiln::doctor {

namespace {

namespace fs = std::filesystem;

constexpr double little_space = 256 << 20; // bytes

// Returns the folder itself, or the existing folder in which it would be created.
fs::path nearest_there(fs::path path) {
  std::error_code none;
  while (!fs::exists(path, none) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

// Returns an empty text if a file can be created and written in the folder, else the reason.
std::string why_not_writable(int folder) {
  const std::string name = ".kiln-doctor-" + std::to_string(::getpid());
  const int file = ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return std::strerror(errno);
  const std::string block(4096, '\0');
  const bool written = ::write(file, block.data(), block.size()) == static_cast<ssize_t>(block.size());
  std::string why = written ? "" : std::strerror(errno);
  if (::close(file) != 0 && why.empty()) why = std::strerror(errno);
  ::unlinkat(folder, name.c_str(), 0);
  return why;
}

} // namespace

Findings check_folder(const std::string& topic, const std::string& what, const fs::path& path) {
  if (path.empty())
    return {{topic, Verdict::warning, "off: there is no folder for " + what,
             "set KILN_CACHE_DIR or HOME, so that later processes can use them"}};
  const cache::OpenFolder open = cache::open_folder(path, cache::IfMissing::leave);
  if (!open.problem.empty())
    return {{topic, Verdict::broken, open.problem,
             "correct this, or set KILN_CACHE_DIR to another folder; until then nothing is kept there"}};
  Finding finding{topic, Verdict::ok, path.string(), ""};
  if (!open.folder) {
    finding.found += ", which does not exist yet";
    const fs::path parent = nearest_there(path);
    std::error_code none;
    if (!fs::is_directory(parent, none)) errno = ENOTDIR;
    if (!fs::is_directory(parent, none) || ::access(parent.c_str(), W_OK | X_OK) != 0) {
      finding.verdict = Verdict::broken;
      finding.found += " and cannot be created in " + parent.string() + ": " + std::strerror(errno);
      finding.mend = "make that folder writable, or set KILN_CACHE_DIR to another one";
      return {finding};
    }
  } else if (const std::string why = why_not_writable(open.folder->descriptor()); !why.empty()) {
    finding.verdict = Verdict::broken;
    finding.found += ", which cannot be written to: " + why;
    finding.mend =
        "make it writable and free some space on its disk, or set KILN_CACHE_DIR to another folder";
    return {finding};
  }
  struct statvfs disk{};
  if (::statvfs(nearest_there(path).c_str(), &disk) == 0) {
    const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (free < little_space) {
      finding.verdict = Verdict::warning;
      finding.found += ", with " + cli::bytes_text(free) + " left on its disk";
      finding.mend = "free some space, or set KILN_CACHE_DIR to a folder on another disk";
    }
  }
  return {finding};
}

Findings check_cache() {
  cache::DiskCache& disk = cache::DiskCache::standard();
  Findings findings = check_folder("cache folder", "compiled kernels", disk.folder());
  if (findings.front().verdict == Verdict::broken || disk.folder().empty()) return findings;
  double bytes = 0;
  std::size_t damaged = 0;
  const auto entries = disk.list();
  for (const auto& entry : entries)
    entry.problem.empty() ? bytes += static_cast<double>(entry.entry.file_bytes) : ++damaged;
  findings.front().found +=
      fmt::format("; {} kernels, {} of at most {}", entries.size() - damaged, cli::bytes_text(bytes),
                  cli::bytes_text(static_cast<double>(disk.limits().bytes)));
  if (damaged > 0)
    findings.push_back({"cache folder", Verdict::warning, fmt::format("{} entries are damaged", damaged),
                        "`kiln cache verify` removes them"});
  return findings;
}

Findings check_records() {
  tune::RecordStore& store = tune::RecordStore::standard();
  Findings findings = check_folder("tuner's folder", "records of tuning", store.path());
  if (findings.front().verdict == Verdict::broken || store.path().empty()) return findings;
  const tune::LoadCounts counts = store.load().counts;
  findings.front().found += fmt::format("; {} records", counts.records);
  if (counts.bad + counts.torn > 0)
    findings.push_back({"tuner's folder", Verdict::warning,
                        fmt::format("{} lines cannot be read", counts.bad + counts.torn),
                        "`kiln records verify` lists them; all others are used"});
  return findings;
}

Findings check_command() try {
  return {{"worker command", Verdict::ok, tune::find_command(), ""}};
} catch (const UserError& error) {
  const std::string what = error.what();
  return {{"worker command", Verdict::broken, what.substr(0, what.rfind(';')),
           "tuning needs it: install it next to the library, or set KILN_COMMAND to its path"}};
}

} // namespace kiln::doctor
