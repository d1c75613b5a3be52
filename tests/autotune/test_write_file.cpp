// Tests that write_file writes a whole file or nothing.
#include "temporary_folder.h"

#include <kiln/autotune/write_file.h>

#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using kiln::test::TemporaryFolder;
using kiln::tune::write_file;

namespace {

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

TEST_CASE("write_file replaces a file, also through a link, and leaves no temporary file") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file", link = folder.path() / "link";
  write_file(file.string(), "first", "the text");
  CHECK(read(file) == "first");
  fs::create_symlink("file", link);
  write_file(link.string(), "second", "the text");
  CHECK(read(file) == "second");
  CHECK(fs::is_symlink(link));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
  CHECK_THROWS_WITH(write_file((folder.path() / "no" / "file").string(), "", "the text"),
                    Catch::StartsWith("the text ") &&
                        Catch::EndsWith("cannot be written: No such file or directory"));
  CHECK_THROWS_WITH(write_file("/dev/full", "text", "the text"), Catch::Contains("No space left on device"));
}

TEST_CASE("write_file keeps the old file if the new text does not fit") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  write_file(file.string(), "first", "the text");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) { // as on a full disk
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {10'000, 10'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file(file.string(), std::string(100'000, 'x'), "the text");
    } catch (const std::exception& e) {
      _exit(std::string(e.what()).ends_with("cannot be written: File too large") ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(read(file) == "first");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}
