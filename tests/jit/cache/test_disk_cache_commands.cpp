// Tests the output of `kiln cache ls`, `clear` and `verify`.
#include <catch2/catch.hpp>

#include "disk_cache_support.h"

#include <kiln/jit/cache/commands.h>

using namespace disk_cache_test;
using Catch::Matchers::Contains;

TEST_CASE("the cache commands of an empty cache", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  const std::string prefix = folder.path().string();
  CHECK(ls_command(recording.cache).text == prefix + ": 0 entries, 0 B of at most 2.0 GiB\n");
  CHECK(clear_command(recording.cache).text == prefix + ": removed 0 entries, 0 B\n");
  CHECK(verify_command(recording.cache, BadEntries::keep).text == prefix + ": 0 entries, 0 bad, 0 removed\n");
}

TEST_CASE("cache ls shows the most recently used kernel first and no control characters", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path(), {.bytes = 500 << 20});
  recording.cache.store({1, 1}, std::string(2048, 'x'), matmul);
  recording.cache.store({2, 2}, std::string(100, 'x'),
                        {.kernel = "soft\x1b[2Jmax\n", .config = "BN=1024", .target = "sm_90a"});
  set_age(entry_path(folder.path(), {1, 1}), 5000);
  write_file(entry_path(folder.path(), {3, 3}), "rubbish");
  const CommandResult result = ls_command(recording.cache);
  INFO(result.text);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.text, Contains("3 entries") && Contains("of at most 500.0 MiB") && Contains("2.0 KiB") &&
                              Contains("BM=128 BN=256") && Contains("x86-64 znver4") && Contains("sm_90a"));
  CHECK_THAT(result.text,
             Contains(to_string(Key{3, 3}) + "  not usable: truncated: 7 bytes, less than a header"));
  CHECK_THAT(result.text, Contains("soft [2Jmax ") && !Contains("\x1b"));
  CHECK(result.text.find("matmul") > result.text.find("soft"));
  CHECK(std::count(result.text.begin(), result.text.end(), '\n') == 5);
}

TEST_CASE("cache verify reports and removes bad entries, cache clear removes all", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  for (std::uint64_t i = 1; i <= 3; ++i)
    recording.cache.store({0, i}, std::string(1000, 'x'), matmul);
  const fs::path path = entry_path(folder.path(), {0, 2});
  std::vector<char> bytes = read_file(path);
  bytes[bytes.size() / 2] ^= 4;
  write_file(path, bytes);
  const std::string prefix = folder.path().string(), key = to_string(Key{0, 2});

  const CommandResult kept = verify_command(recording.cache, BadEntries::keep);
  CHECK(kept.text == key + "  the checksum does not match\n" + prefix + ": 3 entries, 1 bad, 0 removed\n");
  CHECK(kept.exit_code == 1);
  const CommandResult removed = verify_command(recording.cache, BadEntries::remove);
  CHECK(removed.text ==
        key + "  the checksum does not match; removed\n" + prefix + ": 3 entries, 1 bad, 1 removed\n");
  CHECK(removed.exit_code == 0);
  CHECK(verify_command(recording.cache, BadEntries::keep).text == prefix + ": 2 entries, 0 bad, 0 removed\n");

  const CommandResult cleared = clear_command(recording.cache);
  CHECK_THAT(cleared.text, Contains(prefix + ": removed 2 entries, 2."));
  CHECK(cleared.exit_code == 0);
  CHECK(recording.cache.list().empty());
}
