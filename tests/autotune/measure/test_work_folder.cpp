// Tests the folders of tuners and the removal of those that killed tuners left behind.
#include "scoped_variable.h"
#include "temporary_folder.h"

#include <kiln/autotune/measure/work_folder.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>

using namespace kiln;
using namespace kiln::test;
using kiln::tune::WorkFolder;
namespace fs = std::filesystem;

namespace {

void set_age(const fs::path& file, std::chrono::minutes age) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - age);
}

fs::path left_behind(const fs::path& parent, const char* name, std::chrono::minutes age) {
  const fs::path folder = parent / name;
  fs::create_directories(folder / "kernels");
  std::ofstream(folder / "lock");
  set_age(folder / "lock", age);
  return folder;
}

} // namespace

TEST_CASE("a tuner removes its folder, and those that killed tuners left behind") {
  const TemporaryFolder parent;
  const ScopedVariable place("TMPDIR", parent.path().c_str());
  const fs::path old = left_behind(parent.path(), "kiln-tune-old", std::chrono::minutes(30)),
                 young = left_behind(parent.path(), "kiln-tune-young", std::chrono::minutes(1)),
                 foreign = left_behind(parent.path(), "mine", std::chrono::minutes(30));
  fs::create_directory(parent.path() / "kiln-tune-without-a-lock");
  fs::create_directory_symlink(foreign, parent.path() / "kiln-tune-link");
  fs::path used;
  {
    const WorkFolder first;
    used = first.path();
    CHECK(fs::is_directory(used));
    CHECK_FALSE(fs::exists(old));
    set_age(used / "lock", std::chrono::minutes(30)); // a long run
    const WorkFolder second;
    CHECK(second.path() != first.path());
    CHECK(fs::is_directory(used));
  }
  CHECK_FALSE(fs::exists(used));
  CHECK(fs::is_directory(young));
  CHECK(fs::is_directory(foreign / "kernels"));
  CHECK(fs::is_directory(parent.path() / "kiln-tune-without-a-lock"));
}
