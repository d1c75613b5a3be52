// Tests where the cache folder is, and what happens if it is missing, unsafe, full or unusable.
#include <catch2/catch.hpp>

#include "disk_cache_support.h"

#include <kiln/jit/base/options.h>

#include <csignal>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

using namespace disk_cache_test;
using Catch::Matchers::Contains;

namespace {

// Sets or unsets an environment variable until the end of the test.
class Environment {
public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

private:
  const char* name_;
  std::optional<std::string> old_;
};

// Root may write anywhere, so tests of permissions run as another user.
class WithoutRoot {
public:
  explicit WithoutRoot(const fs::path& folder) {
    if (geteuid() != 0) return;
    acts_ = lchown(folder.c_str(), 65534, 65534) == 0 && seteuid(65534) == 0;
  }
  ~WithoutRoot() {
    if (acts_ && seteuid(0) != 0) std::abort();
  }
  bool works() const { return geteuid() != 0; }

private:
  bool acts_ = false;
};

constexpr const char* off = "the kernel cache is off for this process: ";

// Stores and loads several times, and checks that there is exactly one warning.
void check_off(RecordingCache& recording, const std::string& why) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    recording.cache.store({i, i}, std::string("code"), matmul);
    CHECK_FALSE(recording.cache.load({i, i}));
  }
  CHECK(recording.cache.list().empty());
  CHECK(recording.cache.verify(BadEntries::remove).empty());
  CHECK(recording.cache.clear().entries_removed == 0);
  REQUIRE(recording.warnings.size() == 1);
  CHECK(recording.warnings[0] == off + why);
}

// Checks that stores fail with one warning, while entries that existed before are still loaded.
void check_stores_off(RecordingCache& recording, const Key& present, const std::string& why) {
  for (std::uint64_t i = 0; i < 3; ++i)
    recording.cache.store({99, i}, std::string(100'000, 'x'), matmul);
  REQUIRE(recording.warnings.size() == 1);
  CHECK(recording.warnings[0] ==
        "compiled kernels are no longer stored by this process: writing to the cache folder " +
            recording.cache.folder().string() + " failed (" + why +
            "); make room or set KILN_CACHE_DIR to a folder that can be written");
  CHECK(recording.cache.load(present));
  CHECK_FALSE(recording.cache.load({99, 0}));
  CHECK(recording.cache.stats().failed_stores == 1);
  for (const auto& file : fs::directory_iterator(recording.cache.folder()))
    CHECK_THAT(file.path().filename().string(), !Catch::Matchers::StartsWith("kiln-tmp"));
}

} // namespace

TEST_CASE("the standard folder comes from the environment", "[cache]") {
  const Environment home("HOME", "/home/someone");
  {
    const Environment kiln("KILN_CACHE_DIR", "/k"), xdg("XDG_CACHE_HOME", "/x");
    CHECK(standard_folder() == "/k");
  }
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const Environment kiln("KILN_CACHE_DIR", unset);
    {
      const Environment xdg("XDG_CACHE_HOME", "/x");
      CHECK(standard_folder() == "/x/kiln");
    }
    {
      const Environment xdg("XDG_CACHE_HOME", unset);
      CHECK(standard_folder() == "/home/someone/.cache/kiln");
      const Environment no_home("HOME", unset);
      CHECK(standard_folder().empty());
    }
    const Environment xdg("XDG_CACHE_HOME", "relative");
    CHECK(standard_folder() == "/home/someone/.cache/kiln");
  }
}

TEST_CASE("the first store creates a missing folder and its parents, with private access", "[cache]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a" / "b" / "kiln";
  const mode_t old = umask(0);
  RecordingCache recording(path);
  CHECK_FALSE(recording.cache.load({1, 1}));
  CHECK(recording.cache.list().empty());
  CHECK_FALSE(fs::exists(folder.path() / "a")); // loading does not create folders
  recording.cache.store({1, 1}, std::string("code"), matmul);
  umask(old);
  CHECK(recording.cache.load({1, 1}));
  CHECK(recording.warnings.empty());
  CHECK(fs::status(path).permissions() == fs::perms(0700));
  CHECK(fs::status(path.parent_path()).permissions() == fs::perms(0700));
  CHECK(fs::status(entry_path(path, {1, 1})).permissions() == fs::perms(0600));
}

TEST_CASE("a folder that is removed meanwhile is created again", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path() / "kiln");
  recording.cache.store({1, 1}, std::string("code"), matmul);
  fs::remove_all(folder.path() / "kiln");
  CHECK_FALSE(recording.cache.load({1, 1}));
  recording.cache.store({1, 1}, std::string("code"), matmul);
  CHECK(recording.cache.load({1, 1}));
  CHECK(recording.warnings.empty());
}

TEST_CASE("a folder that others can write is refused, also behind a symbolic link", "[cache]") {
  const TemporaryFolder folder;
  const fs::path shared = folder.path() / "shared", link = folder.path() / "link";
  {
    RecordingCache good(shared); // a good entry, which must not be used when the folder is open to others
    good.cache.store({0, 0}, std::string("code"), matmul);
    REQUIRE(good.cache.load({0, 0}));
  }
  fs::create_symlink("shared", link);
  for (unsigned mode : {0777u, 0770u, 0702u, 0720u, 01777u}) {
    fs::permissions(shared, fs::perms(mode));
    for (const fs::path& path : {shared, link}) {
      char mode_text[8];
      std::snprintf(mode_text, sizeof mode_text, "%04o", mode);
      RecordingCache recording(path);
      check_off(recording, "others can write to the folder " + path.string() + " (owner uid " +
                               std::to_string(geteuid()) + ", mode " + mode_text +
                               ") and could put code into it; run `chmod go-w '" + path.string() +
                               "'`, or set KILN_CACHE_DIR to a folder of your own");
    }
  }
  for (unsigned mode : {0700u, 0755u, 0750u}) {
    fs::permissions(shared, fs::perms(mode));
    for (const fs::path& path : {shared, link}) {
      RecordingCache recording(path);
      CHECK(recording.cache.load({0, 0}));
      CHECK(recording.warnings.empty());
    }
  }
}

TEST_CASE("a folder of another user is refused", "[cache]") {
  const TemporaryFolder folder;
  if (lchown(folder.path().c_str(), 65534, 65534) != 0) {
    RecordingCache recording("/"); // belongs to another user, unless this is root
    check_off(
        recording,
        "the folder / belongs to uid 0 and this process runs as uid " + std::to_string(geteuid()) +
            " (mode 0755): its owner could put code into it; set KILN_CACHE_DIR to a folder of your own");
    return;
  }
  RecordingCache recording(folder.path());
  check_off(recording,
            "the folder " + folder.path().string() + " belongs to uid 65534 and this process runs as uid " +
                std::to_string(geteuid()) +
                " (mode 0700): its owner could put code into it; set KILN_CACHE_DIR to a folder of your own");
}

TEST_CASE("a file in place of the folder turns the cache off", "[cache]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  write_file(file, "not a folder");
  RecordingCache recording(file), below(file / "kiln");
  check_off(recording, "the folder " + file.string() +
                           " cannot be opened (Not a directory); set KILN_CACHE_DIR to a folder of your own");
  check_off(below, "the folder " + (file / "kiln").string() +
                       " cannot be created (Not a directory); set KILN_CACHE_DIR to a folder of your own");
  CHECK(read_file(file).size() == 12);
}

TEST_CASE("a dangling or circular link turns the cache off", "[cache]") {
  const TemporaryFolder folder;
  const fs::path dangling = folder.path() / "dangling", circular = folder.path() / "circular";
  fs::create_symlink("nowhere", dangling);
  fs::create_symlink("circular", circular);
  RecordingCache a(dangling), b(circular);
  check_off(a,
            "the folder " + dangling.string() +
                " cannot be opened (No such file or directory); set KILN_CACHE_DIR to a folder of your own");
  check_off(b, "the folder " + circular.string() +
                   " cannot be opened (Too many levels of symbolic links); set KILN_CACHE_DIR to a folder of "
                   "your own");
}

TEST_CASE("without any folder in the environment the cache is off", "[cache]") {
  const Environment kiln("KILN_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", nullptr), home("HOME", nullptr);
  RecordingCache recording(standard_folder());
  check_off(recording, "neither KILN_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set; set KILN_CACHE_DIR to a "
                       "folder of your own");
}

TEST_CASE("a folder that may not be created, read or written warns once", "[cache]") {
  const TemporaryFolder folder;
  const WithoutRoot person(folder.path());
  REQUIRE(person.works());
  const fs::path path = folder.path() / "kiln";
  {
    RecordingCache good(path);
    good.cache.store({1, 1}, std::string("code"), matmul);
    REQUIRE(good.warnings.empty());
  }
  SECTION("read-only") {
    fs::permissions(path, fs::perms(0500));
    RecordingCache recording(path);
    check_stores_off(recording, {1, 1}, "Permission denied");
  }
  SECTION("unreadable") {
    fs::permissions(path, fs::perms(0));
    RecordingCache recording(path);
    check_off(recording,
              "the folder " + path.string() +
                  " cannot be opened (Permission denied); set KILN_CACHE_DIR to a folder of your own");
  }
  SECTION("its parent is read-only") {
    fs::permissions(folder.path(), fs::perms(0500));
    RecordingCache recording(folder.path() / "other");
    check_off(recording,
              "the folder " + (folder.path() / "other").string() +
                  " cannot be created (Permission denied); set KILN_CACHE_DIR to a folder of your own");
    fs::permissions(folder.path(), fs::perms(0700));
  }
  fs::permissions(path, fs::perms(0700));
}

TEST_CASE("a file size limit stops stores without a signal", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  recording.cache.store({1, 1}, std::string("code"), matmul);
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  rlimit low = old;
  low.rlim_cur = 50'000;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
  for (std::uint64_t i = 0; i < 3; ++i)
    recording.cache.store({99, i}, std::string(100'000, 'x'), matmul);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
  check_stores_off(recording, {1, 1}, "File too large");
}

TEST_CASE("a full disk stops stores with one warning", "[cache]") {
  const TemporaryFolder folder;
  if (mount("none", folder.path().c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
    WARN("skipped: no permission to mount a small disk");
    return;
  }
  {
    RecordingCache recording(folder.path());
    recording.cache.store({1, 1}, std::string("code"), matmul);
    check_stores_off(recording, {1, 1}, "No space left on device");
    REQUIRE(mount("none", folder.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0);
    RecordingCache read_only(folder.path());
    check_stores_off(read_only, {1, 1}, "Read-only file system");
  }
  CHECK(umount(folder.path().c_str()) == 0);
}

TEST_CASE("a limit of open files causes a miss and does not turn the cache off", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  recording.cache.store({1, 1}, std::string("code"), matmul);
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
  rlimit low = old;
  low.rlim_cur = 3; // open descriptors stay open
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  const bool loaded = recording.cache.load({1, 1}).has_value();
  recording.cache.store({2, 2}, std::string("code"), matmul);
  const bool stored = recording.cache.load({2, 2}).has_value();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK_FALSE(loaded);
  CHECK_FALSE(stored);
  recording.cache.store({2, 2}, std::string("code"), matmul);
  CHECK(recording.cache.load({1, 1}));
  CHECK(recording.cache.load({2, 2}));
  CHECK(recording.warnings.empty());
}

TEST_CASE("the standard cache reads its limit once and writes its warnings to stderr", "[cache]") {
  const TemporaryFolder folder;
  const fs::path err = folder.path() / "stderr";
  fs::create_directory(folder.path() / "open");
  fs::permissions(folder.path() / "open", fs::perms(0777));
  const Environment kiln("KILN_CACHE_DIR", (folder.path() / "open").c_str()),
      limit("KILN_CACHE_LIMIT", "plenty");
  const kiln::ScopedOptions scope(kiln::Options{}); // independent of KILN_LOG
  const pid_t child = fork();                       // so that the standard cache of this process is not used
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!freopen(err.c_str(), "w", stderr)) _exit(2);
    DiskCache& cache = DiskCache::standard();
    for (int i = 0; i < 3; ++i)
      cache.store({1, 1}, std::string("code"), matmul);
    const bool right =
        !cache.load({1, 1}) && &DiskCache::standard() == &cache && cache.limits().bytes == Limits().bytes;
    std::fflush(stderr);
    _exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const std::vector<char> bytes = read_file(err);
  const std::string text(bytes.begin(), bytes.end());
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK_THAT(text,
             Catch::Matchers::StartsWith(
                 "kiln: warning: KILN_CACHE_LIMIT is 'plenty'; use a number of bytes, such as 500M or 2G; "
                 "taken as 2G\nkiln: warning: the kernel cache is off"));
  CHECK_THAT(text, Contains("chmod go-w '" + (folder.path() / "open").string() + "'"));
}
