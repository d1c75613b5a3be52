// Tests entries of the kernel cache: storing and loading, damage, and removal of the least recently used
// ones.
#include <catch2/catch.hpp>

#include "disk_cache_support.h"
#include "test_seed.h"

#include <kiln/jit/base/version.h>

#include <cstring>
#include <thread>

using namespace disk_cache_test;

TEST_CASE("a stored payload is loaded, by the same and by another cache object", "[cache]") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  RecordingCache first(folder.path()), second(folder.path());
  for (std::size_t size : {0, 1, 7, 240, 241, 4096, 100'000, 3'000'001}) {
    CAPTURE(size);
    const Key key = random_key(random);
    const std::vector<char> payload = random_payload(random, size);
    CHECK_FALSE(first.cache.load(key));
    first.cache.store(key, payload, matmul);
    CHECK(first.cache.load(key) == payload);
    CHECK(second.cache.load(key) == payload);
  }
  CHECK_FALSE(first.cache.load(random_key(random)));
  CHECK(first.warnings.empty());
  CHECK(second.warnings.empty());
  const Stats stats = first.cache.stats();
  CHECK(stats.hits == 8);
  CHECK(stats.misses == 9);
  CHECK(stats.stores == 8);
  CHECK(stats.bad_entries + stats.failed_stores + stats.evicted == 0);
}

TEST_CASE("a second store under one key replaces the first", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  const std::string first = "first", second = "the second, longer";
  recording.cache.store({1, 2}, first, matmul);
  recording.cache.store({1, 2}, second, matmul);
  const auto loaded = recording.cache.load({1, 2});
  REQUIRE(loaded);
  CHECK(std::string(loaded->data(), loaded->size()) == second);
  CHECK(recording.cache.list().size() == 1);
}

TEST_CASE("an entry lists its kernel, config, target, versions, size and times", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  recording.cache.store({1, 2}, std::string(1234, 'x'), matmul);
  const auto entries = recording.cache.list();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].key == Key{1, 2});
  CHECK(entries[0].problem.empty());
  const Entry& entry = entries[0].entry;
  CHECK(entry.metadata.kernel == matmul.kernel);
  CHECK(entry.metadata.config == matmul.config);
  CHECK(entry.metadata.target == matmul.target);
  CHECK(entry.kiln_version == kiln::version());
  CHECK(entry.llvm_version == kiln::llvm_version());
  CHECK(entry.payload_bytes == 1234);
  CHECK(entry.file_bytes == fs::file_size(entry_path(folder.path(), {1, 2})));
  CHECK(std::abs(entry.created - std::time(nullptr)) < 60);
  CHECK(std::abs(entry.last_used - std::time(nullptr)) < 60);
}

TEST_CASE("very long metadata is cut and the entry still works", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  const std::string payload = "code";
  recording.cache.store({1, 2}, payload, {.kernel = std::string(1 << 20, 'k'), .config = "", .target = ""});
  REQUIRE(recording.cache.load({1, 2}));
  const auto entries = recording.cache.list();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].entry.metadata.kernel == std::string(16 << 10, 'k'));
}

TEST_CASE("every change of a single byte of an entry is detected", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  const Key key{0x1122334455667788, 0x99aabbccddeeff00};
  const std::string payload = "forty bytes that stand for machine code.";
  recording.cache.store(key, payload, {.kernel = "k", .config = "B=8", .target = "t"});
  const fs::path path = entry_path(folder.path(), key);
  const std::vector<char> good = read_file(path);
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  int unnoticed = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      const char damaged = static_cast<char>(good[i] ^ change);
      REQUIRE(pwrite(fd, &damaged, 1, static_cast<off_t>(i)) == 1);
      unnoticed += recording.cache.load(key).has_value();
    }
    REQUIRE(pwrite(fd, &good[i], 1, static_cast<off_t>(i)) == 1);
    REQUIRE(recording.cache.load(key));
  }
  close(fd);
  CHECK(unnoticed == 0);
  CHECK(recording.cache.stats().bad_entries == good.size() * 255);
  CHECK(recording.warnings.size() == 1);
}

TEST_CASE("every truncation and extension of an entry is detected", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  const Key key{3, 4};
  recording.cache.store(key, std::string("thirty bytes of machine code.."), matmul);
  const fs::path path = entry_path(folder.path(), key);
  const std::vector<char> good = read_file(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    write_file(path, std::string_view(good.data(), size));
    CHECK_FALSE(recording.cache.load(key));
  }
  std::vector<char> longer = good;
  for (int extra = 1; extra < 100; ++extra) {
    longer.push_back(0);
    write_file(path, longer);
    CHECK_FALSE(recording.cache.load(key));
  }
  std::vector<char> zeros(good.size()); // as a power failure may leave them
  write_file(path, zeros);
  CHECK_FALSE(recording.cache.load(key));
  CHECK(recording.warnings.size() == 1);
  write_file(path, good);
  CHECK(recording.cache.load(key));
}

TEST_CASE("a bad entry warns once, is a miss, and is replaced by the next store", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  const Key key{5, 6}, other{7, 8};
  const std::string payload = "machine code";
  recording.cache.store(key, payload, matmul);
  const fs::path path = entry_path(folder.path(), key);
  const std::vector<char> good = read_file(path);
  std::string problem;

  SECTION("a flipped bit in the payload") {
    std::vector<char> damaged = good;
    damaged.back() ^= 1;
    write_file(path, damaged);
    problem = "the checksum does not match";
  }
  SECTION("cut short") {
    fs::resize_file(path, good.size() - 1);
    problem = std::to_string(good.size() - 1) + " bytes long instead of " + std::to_string(good.size());
  }
  SECTION("empty") {
    fs::resize_file(path, 0);
    problem = "truncated: 0 bytes, less than a header";
  }
  SECTION("another format version") {
    std::vector<char> damaged = good;
    const std::uint32_t version = entry_format_version + 1;
    std::memcpy(damaged.data() + 8, &version, sizeof version);
    write_file(path, damaged);
    problem = "format version 2, not 1";
  }
  SECTION("sizes that need more memory than the machine has") {
    std::vector<char> damaged = good;
    std::memset(damaged.data() + 40, 0x7f, 8);
    write_file(path, damaged);
    problem = "impossible sizes";
  }
  SECTION("sizes whose sum overflows") {
    std::vector<char> damaged = good;
    std::memset(damaged.data() + 32, 0xff, 16);
    write_file(path, damaged);
    problem = "impossible sizes";
  }
  SECTION("the entry of another key") {
    recording.cache.store(other, payload, matmul);
    fs::remove(path);
    fs::rename(entry_path(folder.path(), other), path);
    problem = "it holds another key";
  }
  SECTION("a file of another kind") {
    write_file(path, std::string(500, 'x'));
    problem = "not a kernel cache entry";
  }
  SECTION("a symbolic link, even to a good entry") {
    fs::rename(path, folder.path() / "elsewhere");
    fs::create_symlink("elsewhere", path);
    problem = "a symbolic link";
  }
  SECTION("a pipe, on which a reader could wait forever") {
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    problem = "not a regular file";
  }
  SECTION("a file that others can write") {
    fs::permissions(path, fs::perms(0606));
    problem = "writable by others, mode 0606";
  }
  SECTION("a file of another user") {
    if (lchown(path.c_str(), 65534, 65534) != 0) return; // only root can try
    problem = "owned by uid 65534";
  }

  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(recording.cache.load(key));
  REQUIRE(recording.warnings.size() == 1);
  CHECK(recording.warnings[0] == "the kernel cache entry " + path.string() + " is not usable: " + problem +
                                     "; the kernel is compiled again");
  const auto verified = recording.cache.verify(BadEntries::keep);
  REQUIRE(verified.size() == 1);
  CHECK(verified[0].problem == problem);

  recording.cache.store(key, payload, matmul);
  const auto loaded = recording.cache.load(key);
  REQUIRE(loaded);
  CHECK(std::string(loaded->data(), loaded->size()) == payload);
  CHECK(recording.cache.verify(BadEntries::keep).at(0).problem.empty());
  CHECK(recording.warnings.size() == 1);
}

TEST_CASE("a folder in place of an entry affects only this entry", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  fs::create_directory(entry_path(folder.path(), {1, 1}));
  CHECK_FALSE(recording.cache.load({1, 1}));
  recording.cache.store({1, 1}, std::string("a"), matmul);
  CHECK_FALSE(recording.cache.load({1, 1}));
  recording.cache.store({2, 2}, std::string("b"), matmul);
  CHECK(recording.cache.load({2, 2}));
  CHECK(recording.warnings.size() == 1);
  // The folder, an entry and the stamp: no abandoned file.
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 3);
}

TEST_CASE("verify finds the bad entries among good ones and removes them if requested", "[cache]") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  std::vector<Key> bad;
  for (int i = 0; i < 40; ++i) {
    const Key key = random_key(random);
    recording.cache.store(key, random_payload(random, 100 + random() % 1000), matmul);
    if (i % 4 != 0) continue;
    const fs::path path = entry_path(folder.path(), key);
    std::vector<char> bytes = read_file(path);
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    write_file(path, bytes);
    bad.push_back(key);
  }
  std::sort(bad.begin(), bad.end());
  for (BadEntries action : {BadEntries::keep, BadEntries::remove}) {
    std::vector<Key> found;
    const auto entries = recording.cache.verify(action);
    CHECK(entries.size() == 40);
    for (const VerifiedEntry& entry : entries) {
      if (entry.problem.empty()) continue;
      found.push_back(entry.key);
      CHECK(entry.removed == (action == BadEntries::remove));
    }
    CHECK(found == bad);
  }
  CHECK(recording.cache.verify(BadEntries::keep).size() == 30);
}

TEST_CASE("clear removes entries and leaves other files alone", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  for (std::uint64_t i = 0; i < 10; ++i)
    recording.cache.store({i, i}, std::string("x"), matmul);
  const std::vector<std::string> foreign = {"notes.txt",
                                            "0123.kiln",
                                            "tmp.1",
                                            "kiln-tmp.abc",
                                            "kiln-tmp.zz.1.1",
                                            std::string(32, 'A') + ".kiln",
                                            "kiln-tmp.0123456789abcdef.1.x",
                                            "kiln-tmp.0123456789abcdef.-1.0"};
  for (const std::string& name : foreign) {
    write_file(folder.path() / name, "mine");
    set_age(folder.path() / name, 1'000'000);
  }
  const SweepReport report = recording.cache.clear();
  CHECK(report.entries_removed == 10);
  CHECK(report.entries_left == 0);
  CHECK(recording.cache.list().empty());
  for (const std::string& name : foreign)
    CHECK(fs::exists(folder.path() / name));
}

TEST_CASE("a sweep removes the least recently used entries until the cache fits", "[cache]") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  RecordingCache unlimited(folder.path());
  std::vector<Key> keys; // the least recently used first
  for (int i = 0; i < 50; ++i) {
    keys.push_back(random_key(random));
    unlimited.cache.store(keys.back(), random_payload(random, 10'000), matmul);
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    set_age(entry_path(folder.path(), keys[i]), 100'000 - 100 * static_cast<long>(i));
  const std::uint64_t each = fs::file_size(entry_path(folder.path(), keys[0]));

  SECTION("nothing is removed below the limit") {
    RecordingCache exact(folder.path(), {.bytes = 50 * each});
    CHECK(exact.cache.sweep_now().entries_removed == 0);
  }
  SECTION("above the limit the oldest entries are removed, down to 7/8 of it") {
    RecordingCache small(folder.path(), {.bytes = 40 * each});
    const SweepReport report = small.cache.sweep_now();
    CHECK(report.entries_removed == 15);
    CHECK(report.bytes_removed == 15 * each);
    CHECK(report.entries_left == 35);
    CHECK(report.bytes_left == 35 * each);
    for (std::size_t i = 0; i < keys.size(); ++i)
      CHECK(small.cache.load(keys[i]).has_value() == (i >= 15));
  }
  SECTION("a hit makes an entry recently used") {
    CHECK(unlimited.cache.load(keys[3]));
    RecordingCache tiny(folder.path(), {.bytes = 2 * each});
    tiny.cache.sweep_now();
    CHECK(tiny.cache.load(keys[3]));
    CHECK(tiny.cache.list().size() == 1);
  }
}

TEST_CASE("a hit updates the time of use only if that is old", "[cache]") {
  const TemporaryFolder folder;
  RecordingCache recording(folder.path());
  recording.cache.store({1, 2}, std::string("x"), matmul);
  const fs::path path = entry_path(folder.path(), {1, 2});
  set_age(path, 1800);
  CHECK(recording.cache.load({1, 2}));
  CHECK(age_of(path) > 1700);
  set_age(path, 3700);
  CHECK(recording.cache.load({1, 2}));
  CHECK(age_of(path) < 60);
}

TEST_CASE("stores sweep at most once per interval, even with a stamp in the future", "[cache]") {
  const TemporaryFolder folder;
  const Limits limits = {.bytes = 40'000};
  RecordingCache recording(folder.path(), limits);
  const std::string payload(10'000, 'x');
  for (std::uint64_t i = 0; i < 20; ++i)
    recording.cache.store({i, i}, payload, matmul);
  CHECK(recording.cache.stats().evicted == 0); // the first store swept, but there was nothing to remove
  const auto entries_after_store = [&](std::uint64_t i) {
    recording.cache.store({i, i}, payload, matmul);
    return recording.cache.list().size();
  };
  CHECK(entries_after_store(20) == 21);
  set_age(folder.path() / "last-sweep", 3700);
  CHECK(entries_after_store(21) == 3);
  CHECK(recording.cache.stats().evicted == 19);
  CHECK(entries_after_store(22) == 4);
  CHECK(entries_after_store(23) == 5);
  set_age(folder.path() / "last-sweep", -100'000);
  CHECK(entries_after_store(24) == 3);
  CHECK(recording.cache.load({24, 24})); // the entry that was just stored is the most recently used one
}

TEST_CASE("a payload larger than the whole limit is not stored, and a limit of 0 turns the cache off",
          "[cache]") {
  const TemporaryFolder folder;
  RecordingCache small(folder.path() / "small", {.bytes = 100}), off(folder.path() / "off", {.bytes = 0});
  for (DiskCache* cache : {&small.cache, &off.cache}) {
    cache->store({1, 1}, std::string(101, 'x'), matmul);
    CHECK_FALSE(cache->load({1, 1}));
  }
  off.cache.store({2, 2}, std::string(), matmul);
  CHECK_FALSE(off.cache.load({2, 2}));
  CHECK_FALSE(fs::exists(folder.path() / "off"));
  CHECK(small.warnings.empty());
  CHECK(off.warnings.empty());
}

TEST_CASE("several threads can use one cache object", "[cache]") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  const TemporaryFolder folder;
  RecordingCache recording(folder.path(), {.sweep_interval = std::chrono::seconds(0)});
  const auto payload_of = [](std::uint64_t i) {
    return std::vector<char>(100 + i * 37, static_cast<char>('a' + i));
  };
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t k = random() % 16;
        if (const auto loaded = recording.cache.load({k, k}))
          wrong += *loaded != payload_of(k);
        else
          recording.cache.store({k, k}, payload_of(k), matmul);
        if (i % 64 == 0) recording.cache.clear();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(recording.warnings.empty());
  const Stats stats = recording.cache.stats();
  CHECK(stats.hits + stats.misses == 1600);
  CHECK(stats.stores == stats.misses);
}
