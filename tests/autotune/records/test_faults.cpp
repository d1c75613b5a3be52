// Tests a record store with killed writers, full disks, and folders that cannot be written or used.
#include <catch2/catch.hpp>

#include "autotune/own_cache.h"
#include "left_out.h"
#include "records_support.h"

#include <kiln/autotune/records/maintenance.h>

#include <csignal>
#include <set>

#include <sys/mman.h>
#include <sys/resource.h>

using namespace records_test;

namespace {

// The memory that writers share with the test, also after their end.
struct Shared {
  int committed[64]; // how many records each writer has stored
  bool all_started;  // no writer starts before, since the first might end before the last exists
  bool killing_over; // no writer ends before
};

Shared& shared_memory() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  return *static_cast<Shared*>(memory);
}

std::string config_of_writer(int writer, int record) {
  return "writer=" + std::to_string(writer) + ",record=" + std::to_string(record);
}

// The user of permission tests, since root may write anywhere.
constexpr uid_t other_user = 65534;

// Runs in a child that is not root, in its own folder with this mode.
template <typename Body> int as_somebody(const fs::path& folder, mode_t mode, Body body) {
  return exit_code_of(start([&] {
    if (geteuid() == 0) {
      if (chown(folder.c_str(), other_user, other_user) != 0) return 90;
      if (chmod(folder.c_str(), mode) != 0) return 91;
      if (setgid(other_user) != 0 || setuid(other_user) != 0) return 92;
    } else if (chmod(folder.c_str(), mode) != 0) {
      return 93;
    }
    return body();
  }));
}

} // namespace

TEST_CASE("64 writers, some killed at random, lose no record that was stored", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "made" / "by" / "all";
  Shared& shared = shared_memory();
  const auto wait_for = [test = getpid()](const bool& flag) {
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE)) {
      if (getppid() != test) _exit(4); // the test ended early
      usleep(5000);
    }
  };
  std::vector<pid_t> running;
  for (int w = 0; w < 64; ++w)
    running.push_back(start([&, w] {
      RecordStore store(folder);
      Database database(store);
      wait_for(shared.all_started);
      for (int i = 0; i < kiln::test::rounds(200); ++i) {
        Record record = example_record(example_key(256 << w % 4), 1e-3 * (i + 1), config_of_writer(w, i));
        record.result.error = std::string(static_cast<std::size_t>(i * 7 % 900), 'e');
        if (!store.append(record)) return 1;
        __atomic_store_n(&shared.committed[w], i + 1, __ATOMIC_RELEASE);
        if (i % 20 == 0 && !database.publish(record)) return 2;
        if (i % 50 == 0 && store.load(Filter::of(*record.key)).counts.bad) return 3;
      }
      wait_for(shared.killing_over);
      return 0;
    }));
  __atomic_store_n(&shared.all_started, true, __ATOMIC_RELEASE);
  RecordStore reader(folder);
  LoadCursor cursor;
  std::size_t seen = 0;
  constexpr int killed = 32;
  for (int round = 0; round < killed; ++round) {
    usleep(static_cast<useconds_t>(random() % 4000));
    std::swap(running[random() % running.size()], running.back());
    kill(running.back(), SIGKILL);
    CHECK(exit_code_of(running.back()) == -SIGKILL);
    running.pop_back();
    const Loaded news = reader.load({}, &cursor);
    CHECK(news.counts.bad == 0);
    seen += news.records.size();
  }
  __atomic_store_n(&shared.killing_over, true, __ATOMIC_RELEASE);
  for (const pid_t child : running)
    CHECK(exit_code_of(child) == 0);

  const auto check_all = [&] {
    const Loaded all = RecordStore(folder).load();
    CHECK(all.counts.bad == 0);
    CHECK(all.counts.duplicates == 0);
    CHECK(all.counts.torn <= static_cast<std::uint64_t>(killed));
    std::set<std::string> configs;
    for (const Record& record : all.records)
      configs.insert(record.config);
    int lost = 0;
    for (int w = 0; w < 64; ++w)
      for (int i = 0; i < shared.committed[w]; ++i)
        lost += !configs.contains(config_of_writer(w, i));
    CHECK(lost == 0);
    return all.records.size();
  };
  const std::size_t count = check_all();
  seen += reader.load({}, &cursor).records.size();
  CHECK(seen == count); // a concurrent reader missed nothing
  RecordStore store(folder);
  for (int m = 0; m < 4; ++m) {
    const auto best = store.best(example_key(256 << m));
    if (best) CHECK(best->confirmed);
  }
  CHECK(verify(store, Repair::yes).busy == false);
  const RewriteReport compacted = compact(store);
  CHECK(compacted.segments_after - compacted.in_use == 1); // an empty segment counts as in use for a while
  CHECK(check_all() == count);
  CHECK(verify(store, Repair::no).damage.empty());
  munmap(&shared, sizeof(Shared));
}

TEST_CASE("if storing fails, there is one warning, and lines stay complete", "[records]") {
  const TemporaryFolder folder;
  const int code = exit_code_of(start([&] {
    LogCapture log;
    RecordStore store(folder.path());
    Database database(store);
    rlimit limit = {20'000, 20'000}; // file size; the system sends a signal beyond it
    setrlimit(RLIMIT_FSIZE, &limit);
    int stored = 0;
    for (int i = 0; i < 200; ++i)
      stored += store.append(example_record(example_key(), 1e-3, "BM=" + std::to_string(i)));
    if (stored < 10 || stored == 200) return 1;
    if (log.lines().size() != 1) return 2;
    if (log.lines()[0].find("cannot be stored in " + folder.path().string() + " (File too large)") ==
        std::string::npos)
      return 3;
    if (store.load().counts.records != static_cast<std::uint64_t>(stored)) return 4;
    if (store.load().counts.torn + store.load().counts.bad != 0) return 5;
    // A limit that is smaller than a best config.
    limit = {100, 20'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    if (database.publish(example_record(example_key()))) return 6;
    if (!database.find_best(example_key()).trusted()) return 7;  // this process uses it anyway
    if (!files_of(folder.path() / "best", "").empty()) return 8; // no incomplete file either
    return log.lines().size() == 1 ? 0 : 9;
  }));
  CHECK(code == 0);
}

TEST_CASE("an incomplete write is reported with the number of bytes", "[records]") {
  // With the signal ignored, the system writes as much as fits.
  const TemporaryFolder folder;
  const int code = exit_code_of(start([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const cache::OpenFolder opened = cache::open_folder(folder.path(), cache::IfMissing::leave);
    const int file = openat(opened.folder->descriptor(), "f", O_WRONLY | O_APPEND | O_CREAT, 0600);
    rlimit limit = {10, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::size_t written = 0;
    if (write_once(file, "0123456", written) != 0 || written != 7) return 1;
    if (write_once(file, "0123456", written) == 0 || written != 3) return 2;
    const int full = open("/dev/full", O_WRONLY);
    if (write_once(full, "0123456", written) != ENOSPC || written != 0) return 3;
    return 0;
  }));
  CHECK(code == 0);
}

TEST_CASE("a read-only folder is read, and storing fails with one warning", "[records]") {
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "v1";
  fs::permissions(parent.path(), fs::perms::all);
  const int code = exit_code_of(start([&] {
    // The owner creates the folder and then makes it read-only.
    fs::create_directory(folder);
    return as_somebody(folder, 0700, [&] {
      {
        RecordStore store(folder);
        if (!store.append(example_record(example_key()))) return 1;
        if (!store.publish_best(example_record(example_key()))) return 2;
      }
      for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_directory())
          fs::permissions(entry.path(), fs::perms::owner_read | fs::perms::owner_exec);
      fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
      LogCapture log;
      RecordStore store(folder);
      Database database(store);
      if (store.load().records.size() != 1) return 3;
      if (!database.find_best(example_key())) return 4;
      for (int i = 0; i < 3; ++i)
        if (store.append(example_record(example_key(1024)))) return 5;
      if (database.publish(example_record(example_key(2048)))) return 6;
      if (!database.find_best(example_key(2048)).trusted()) return 7;
      if (!compact(store).busy) return 8;
      if (log.lines().size() != 1 || log.lines()[0].find("Permission denied") == std::string::npos) return 9;
      for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_directory()) fs::permissions(entry.path(), fs::perms::owner_all);
      fs::permissions(folder, fs::perms::owner_all);
      return 0;
    });
  }));
  CHECK(code == 0);
}

TEST_CASE("a folder that others own or can write to is rejected", "[records]") {
  const OwnCache cache;
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "v1";
  {
    RecordStore store(path);
    store.append(example_record(example_key()));
  }
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_write);
  const auto check_refused = [&](const char* reason) {
    LogCapture log;
    RecordStore store(path);
    Database database(store);
    CHECK(store.load().records.empty());
    CHECK_FALSE(store.append(example_record(example_key())));
    CHECK_FALSE(store.publish_best(example_record(example_key())));
    CHECK_FALSE(database.find_best(example_key()));
    REQUIRE(log.lines().size() == 1);
    CAPTURE(log.lines()[0]);
    CHECK(log.lines()[0].find("tuning records are neither stored nor read by this process: ") !=
          std::string::npos);
    CHECK(log.lines()[0].find(reason) != std::string::npos);
  };
  check_refused("others can write to the folder");
  fs::permissions(path, fs::perms::owner_all);
  CHECK(RecordStore(path).load().records.size() == 1);
  if (geteuid() == 0) {
    REQUIRE(chown(path.c_str(), other_user, other_user) == 0);
    check_refused("belongs to uid");
    CHECK(merge(RecordStore::standard(), path).problem.find("belongs to uid") != std::string::npos);
  }
}

TEST_CASE("a store without a folder or with a file in its place stores nothing", "[records]") {
  const TemporaryFolder folder;
  {
    LogCapture log;
    RecordStore nowhere{fs::path()};
    Database database(nowhere);
    CHECK_FALSE(nowhere.append(example_record(example_key())));
    CHECK(nowhere.load().records.empty());
    CHECK_FALSE(database.publish(example_record(example_key())));
    CHECK(database.find_best(example_key()).trusted());
    CHECK(compact(nowhere).segments_after == 0);
    CHECK(log.lines().empty()); // no warning, since the cache is disabled on purpose
  }
  write_bytes(folder.path() / "file", "x");
  LogCapture log;
  RecordStore store(folder.path() / "file");
  CHECK_FALSE(store.append(example_record(example_key())));
  CHECK(store.load().records.empty());
  CHECK(log.lines().size() == 1);
  RecordStore inner(folder.path());
  write_bytes(folder.path() / "rec", "x"); // a file in place of a subfolder
  CHECK_FALSE(inner.append(example_record(example_key())));
  CHECK(inner.publish_best(example_record(example_key())));
  CHECK(log.lines().size() == 2);
}

TEST_CASE("a forked child appends to its own segment", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  CHECK(store.append(example_record(example_key(), 1e-3, "BM=parent")));
  CHECK(exit_code_of(start(
            [&] { return store.append(example_record(example_key(), 1e-3, "BM=child")) ? 0 : 1; })) == 0);
  CHECK(store.append(example_record(example_key(), 1e-3, "BM=again")));
  CHECK(files_of(folder.path(), ".jsonl").size() == 2);
  CHECK(RecordStore(folder.path()).load().counts.records == 3);
}
