// Searches in the background: how they end with their process.
#include "other_process.h"
#include "own_cache.h"
#include "row_sums.h"

#include <kiln/autotune/background.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

// A command that never says anything, so that a search waits for it for a minute.
void use_silent_command(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "silent";
  std::ofstream(path) << "#!/bin/sh\n: >\"" << (folder / "asked").string() << "\"\nexec sleep 600\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  setenv("KILN_COMMAND", path.c_str(), 1);
}

// Returns once a search waits for the silent command.
void wait_until_asked(const std::filesystem::path& folder) {
  while (!std::filesystem::exists(folder / "asked"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::filesystem::path given_folder() { return std::getenv("KILN_CACHE_DIR"); }

} // namespace

TEST_CASE("ends while it searches", "[.][ends_while_it_searches]") {
  use_silent_command(given_folder());
  Rows rows(64, 500);
  Stream stream;
  tuned(row_sums("row sums, left"), row_space(), with_mode(tune::Mode::online))
      .launch(stream, rows.x, rows.out);
  stream.synchronize();
  rows.check();
  wait_until_asked(given_folder());
}

TEST_CASE("a process that ends does not wait for its search") {
  const OwnCache cache;
  CHECK(exit_code_of_test("[ends_while_it_searches]", 40) == 0);
}
