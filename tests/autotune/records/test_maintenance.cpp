// Tests compaction, pruning, verification, merging and explanations of record stores.
#include <catch2/catch.hpp>

#include "records_support.h"

#include <kiln/autotune/records/maintenance.h>
#include <kiln/autotune/records/why.h>
#include <kiln/jit/base/version.h>

#include <atomic>
#include <set>
#include <thread>

using namespace records_test;

namespace {

// Appends in a separate process, so that no running process uses the segment afterwards.
template <typename Body> void in_other_process(Body body) {
  REQUIRE(exit_code_of(start([&] {
            body();
            return 0;
          })) == 0);
}

std::set<std::string> configs_in(const fs::path& folder) {
  std::set<std::string> configs;
  for (const Record& record : RecordStore(folder).load().records)
    configs.insert(record.config);
  return configs;
}

std::string future_line(int n) {
  std::string line = "{\"v\":2,\"n\":" + std::to_string(n);
  return line + ",\"crc\":\"" + to_string(cache::checksum({std::span(line.data(), line.size())})).substr(24) +
         "\"}\n";
}

std::int64_t days_ago(double days) {
  return static_cast<std::int64_t>((static_cast<double>(std::time(nullptr)) - days * 86400) * 1000);
}

} // namespace

TEST_CASE("compaction combines files and keeps records, including those of later versions", "[records]") {
  const TemporaryFolder folder;
  for (int i = 0; i < 10; ++i)
    in_other_process([&] {
      RecordStore store(folder.path());
      for (int j = 0; j < 5; ++j)
        store.append(example_record(example_key(), 1e-3, "BM=" + std::to_string(i * 5 + j)));
    });
  auto files = files_of(folder.path(), ".jsonl");
  REQUIRE(files.size() == 10);
  write_bytes(files[0], read_bytes(files[0]) + future_line(1) + read_bytes(files[1]) + "damaged\n");
  const auto before = configs_in(folder.path());
  REQUIRE(before.size() == 50);

  RecordStore live(folder.path());
  live.append(example_record(example_key(), 1e-3, "BM=live"));
  RecordStore store(folder.path());
  const RewriteReport report = compact(store);
  CHECK(report.segments_before == 11);
  CHECK(report.segments_after == 2);
  CHECK(report.in_use == 1);
  CHECK(report.kept == 51);
  CHECK(report.future == 1);
  CHECK(report.duplicates == 5);
  CHECK(report.bad == 1);
  files = files_of(folder.path(), ".jsonl");
  CHECK(files.size() == 2);
  const Loaded loaded = RecordStore(folder.path()).load();
  CHECK(loaded.counts.records == 51);
  CHECK(loaded.counts.future == 1);
  CHECK(loaded.counts.bad + loaded.counts.duplicates == 0);
  CHECK(configs_in(folder.path()).size() == 51);
  live.append(example_record(example_key(), 1e-3, "BM=later"));
  CHECK(configs_in(folder.path()).contains("BM=later"));

  const RewriteReport again = compact(store);
  CHECK(again.segments_after == 2);
  CHECK(again.kept == 51);
  CHECK(files_of(folder.path(), ".jsonl") == files); // compact files stay unchanged
}

TEST_CASE("no record is lost when stores are compacted while others append and read", "[records]") {
  const TemporaryFolder folder;
  constexpr int writers = 6, each = 60;
  std::vector<pid_t> running;
  for (int w = 0; w < writers; ++w)
    running.push_back(start([&, w] {
      for (int i = 0; i < each; ++i) {
        RecordStore store(folder.path()); // a new segment each time
        if (!store.append(example_record(example_key(), 1e-3, "BM=" + std::to_string(w * each + i))))
          return 1;
      }
      return 0;
    }));
  for (int c = 0; c < 2; ++c)
    running.push_back(start([&] {
      RecordStore store(folder.path());
      for (int i = 0; i < 40; ++i) {
        if (compact(store).failed) return 1;
        usleep(2000);
      }
      return 0;
    }));
  for (int r = 0; r < 2; ++r) // readers during compaction never miss earlier records
    running.push_back(start([&] {
      RecordStore store(folder.path());
      std::size_t before = 0;
      for (int i = 0; i < 200; ++i) {
        const Loaded all = store.load();
        const std::string text = export_lines(store, {});
        const auto exported = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        if (all.counts.bad) return 2;
        if (all.records.size() < before) return 3;
        if (exported < all.records.size()) return 4;
        before = exported;
      }
      return 0;
    }));
  for (const pid_t child : running)
    CHECK(exit_code_of(child) == 0);
  CHECK(configs_in(folder.path()).size() == writers * each);
  RecordStore store(folder.path());
  CHECK(compact(store).segments_after == 1);
  CHECK(configs_in(folder.path()).size() == writers * each);
}

TEST_CASE("a writer whose segment was removed starts another", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  CHECK(store.append(example_record(example_key(), 1e-3, "BM=1")));
  fs::remove(files_of(folder.path(), ".jsonl").at(0));
  CHECK(store.append(example_record(example_key(), 1e-3, "BM=2")));
  CHECK(configs_in(folder.path()) == std::set<std::string>{"BM=2"});
  fs::remove_all(folder.path() / "rec");
  CHECK(store.append(example_record(example_key(), 1e-3, "BM=3")));
  CHECK(configs_in(folder.path()) == std::set<std::string>{"BM=3"});
}

TEST_CASE("pruning removes by age, by count and by code generation", "[records]") {
  const TemporaryFolder folder;
  RecordKey current = example_key(), stale = example_key(1024);
  current.code_generation = code_generation_version;
  stale.code_generation = code_generation_version - 1;
  in_other_process([&] {
    RecordStore store(folder.path());
    for (int i = 0; i < 10; ++i) {
      Record record = example_record(current, i == 8 ? 1e-4 : 1e-3, "BM=" + std::to_string(i));
      record.time = days_ago(i * 10 + 1);
      store.append(record);
    }
    store.append(example_record(stale, 1e-3, "BM=stale"));
    store.publish_best(example_record(current));
    store.publish_best(example_record(stale));
  });
  RecordStore store(folder.path());
  RewriteReport report =
      prune(store, {.older_than_days = {}, .keep_newest = {}, .stale_code_generation = true});
  CHECK(report.removed == 1);
  CHECK(report.bests_removed == 1);
  CHECK_FALSE(store.best(stale));
  CHECK(store.best(current));
  report = prune(store, {.older_than_days = 55, .keep_newest = {}, .stale_code_generation = false});
  CHECK(report.removed == 3); // the fastest stays as long as newer ones do
  CHECK(configs_in(folder.path()) ==
        std::set<std::string>{"BM=0", "BM=1", "BM=2", "BM=3", "BM=4", "BM=5", "BM=8"});
  report = prune(store, {.older_than_days = {}, .keep_newest = 2, .stale_code_generation = false});
  CHECK(configs_in(folder.path()) == std::set<std::string>{"BM=0", "BM=1", "BM=8"});
  report = prune(store, {.older_than_days = 0.5, .keep_newest = {}, .stale_code_generation = false});
  CHECK(configs_in(folder.path()).empty());
  CHECK(files_of(folder.path(), ".jsonl").empty());
}

TEST_CASE("verification lists damage, and repairs it", "[records]") {
  const TemporaryFolder folder;
  in_other_process([&] {
    RecordStore store(folder.path());
    for (int i = 0; i < 4; ++i) {
      Record record = example_record(example_key(256 << i), 1e-3);
      record.confirmed = true;
      store.append(record);
      store.publish_best(record);
    }
  });
  RecordStore store(folder.path());
  VerifyReport report = verify(store, Repair::no);
  CHECK(report.damage.empty());
  CHECK(report.good == 4);
  CHECK(report.bests == 4);
  const fs::path segment = files_of(folder.path(), ".jsonl").at(0);
  std::string bytes = read_bytes(segment);
  bytes[10] ^= 4;
  write_bytes(segment, bytes + "\n" + future_line(1) + "{\"v\":1");
  const fs::path best = files_of(folder.path() / "best", ".json").at(2);
  write_bytes(best, "garbage");
  const fs::path leftover = best.parent_path() / ".tmp-host-1-2-3";
  write_bytes(leftover, "half");
  report = verify(store, Repair::no);
  CHECK(report.leftovers == 0); // another process may still use it
  fs::last_write_time(leftover, fs::last_write_time(leftover) - std::chrono::hours(2));
  report = verify(store, Repair::no);
  CHECK(report.leftovers == 1);
  REQUIRE(report.damage.size() == 4);
  CHECK(report.damage[0].line == 1);
  CHECK(report.damage[0].problem == "the checksum does not match");
  CHECK(report.damage[1].problem == "an empty line");
  CHECK(report.damage[2].problem == "incomplete, or not a record");
  CHECK(report.damage[3].file.starts_with("best/"));
  CHECK(report.good == 3);
  CHECK(report.future == 1);
  CHECK(report.repaired == 0);

  report = verify(store, Repair::yes);
  CHECK(report.repaired == 5);
  report = verify(store, Repair::no);
  CHECK(report.damage.empty());
  CHECK(report.good == 3);
  CHECK(report.future == 1);
  CHECK(report.leftovers == 0);
  CHECK(report.bests >= 3); // the best of the damaged record is lost, others are found again
}

TEST_CASE("merging is idempotent and keeps the faster best", "[records]") {
  const TemporaryFolder folder;
  const fs::path ours = folder.path() / "ours", theirs = folder.path() / "theirs" / "tune" / "v1";
  RecordStore store(ours), other(theirs);
  for (int i = 0; i < 5; ++i) {
    store.append(example_record(example_key(), 1e-3, "BM=" + std::to_string(i)));
    other.append(example_record(example_key(), 1e-3, "BM=" + std::to_string(10 + i)));
  }
  Record shared = example_record(example_key(2048), 1e-3, "BM=shared");
  store.append(shared);
  other.append(shared);
  const fs::path segment = files_of(theirs, ".jsonl").at(0);
  write_bytes(segment.parent_path() / "other.jsonl", future_line(1) + "damaged\n" + "torn");
  Record slow = example_record(example_key(), 2e-3, "BM=slow"),
         fast = example_record(example_key(), 1e-3, "BM=fast");
  slow.confirmed = fast.confirmed = true;
  store.publish_best(slow);
  other.publish_best(fast);
  other.publish_best(example_record(example_key(64), 1e-3, "BM=theirs"));

  MergeReport report = merge(store, folder.path() / "theirs"); // the cache folder works too
  CHECK(report.problem.empty());
  CHECK(report.added == 6);
  CHECK(report.known == 1);
  CHECK(report.bad == 1);
  CHECK(report.future == 1);
  CHECK(report.bests == 2);
  CHECK(store.best(example_key())->config == "BM=fast");
  CHECK(store.best(example_key(64))->config == "BM=theirs");
  CHECK(configs_in(ours).size() == 11);
  CHECK(store.load().counts.future == 1);
  report = merge(store, theirs);
  CHECK(report.added == 0);
  CHECK(report.bests == 0);
  CHECK(configs_in(ours).size() == 11);
  report = merge(other, ours);
  CHECK(report.added == 5);
  CHECK(report.bests == 0);
  CHECK(other.best(example_key())->config == "BM=fast");
  CHECK(configs_in(theirs) == configs_in(ours));

  CHECK(merge(store, folder.path() / "nowhere").problem == "there is no such folder");
  CHECK(merge(store, folder.path()).problem == "it contains no tuning records");
}

TEST_CASE("exported records are imported elsewhere once", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path() / "a"), other(folder.path() / "b"), third(folder.path() / "c");
  for (int i = 0; i < 5; ++i) {
    Record record =
        example_record(example_key(i % 2 ? 512 : 1024), 1e-3 * (i + 1), "BM=" + std::to_string(i));
    record.time -= i;
    store.append(record);
  }
  store.append(example_record(example_key(512, "softmax")));
  Filter matmul;
  matmul.kernel = "matmul";
  const std::string lines = export_lines(store, matmul);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 5);
  CHECK(import_text(other, lines).added == 5);
  CHECK(import_text(other, lines).known == 5);
  CHECK(import_text(other, lines.substr(0, lines.size() - 1) + "x\n").bad == 1);
  CHECK(export_lines(other, {}) == lines);

  const auto best = export_winners(store, {});
  REQUIRE(best.size() == 3);
  const std::string wisdom = wisdom_text(best);
  CHECK(import_text(third, wisdom).bests == 3);
  CHECK(import_text(third, wisdom).bests == 0);
  CHECK(third.best(example_key(512))->config == "BM=1");
  CHECK(third.load().counts.records == 3);
  CHECK_FALSE(import_text(third, "{\"kiln_wisdom\":").problem.empty());
}

TEST_CASE("confirmed configs in imported records are used if there was none before", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path() / "a"), other(folder.path() / "b"), third(folder.path() / "c");
  store.append(example_record(example_key(), 0.5e-3, "BM=lucky"));
  Record best = example_record(example_key(), 1e-3, "BM=best");
  best.confirmed = true;
  store.append(best);
  store.append(example_record(example_key(64), 1e-3, "BM=interrupted"));
  const std::string lines = export_lines(store, {});
  MergeReport report = import_text(other, lines);
  CHECK(report.bests == 1);
  REQUIRE(other.best(example_key()));
  CHECK(other.best(example_key())->config == "BM=best");
  CHECK_FALSE(other.best(example_key(64)));
  CHECK(import_text(other, lines).bests == 0);
  // A config in use stays.
  Record own = example_record(example_key(), 2e-3, "BM=own");
  own.confirmed = true;
  third.publish_best(own);
  CHECK(import_text(third, lines).bests == 0);
  CHECK(third.best(example_key())->config == "BM=own");
  // This also holds for merging a folder whose best was damaged.
  RecordStore fourth(folder.path() / "d");
  CHECK(merge(fourth, folder.path() / "a").bests == 1);
  CHECK(fourth.best(example_key())->config == "BM=best");
}

TEST_CASE("why explains which config is used and what is known", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  const Device cpu = Device::cpu();
  const RecordKey key = make_key("matmul", {1, 2}, {3, 4}, {{{"M", 512}}, "f32"}, cpu);
  CHECK(key.code_generation == code_generation_version);
  CHECK(key.backend == "cpu");
  CHECK_FALSE(key.silicon.empty());
  RecordKey far = key, old = key;
  far.problem.sizes[0].second = 4096;
  far.bucketing = "pow2";
  old.tools.llvm = "20.1.0";
  const auto verdict = [&] {
    Database database(store);
    return why(database, key).verdict;
  };
  CHECK(verdict() ==
        "nothing is known about this problem or its neighbours: the analytic model chooses the config");
  Record far_record = example_record(far, 1e-3, "BM=far");
  far_record.confirmed = true;
  store.publish_best(far_record);
  CHECK(verdict() ==
        "nothing is known about this problem: the analytic model chooses the config, and tuning starts from "
        "the configs of 1 neighbour");
  Record failed = example_record(key, 0, "BM=bad");
  failed.result.status = Status::crash;
  store.append(failed);
  store.append(example_record(key, 1e-3, "BM=new"));
  CHECK(verdict() ==
        "BM=new is used, the fastest of the database, but no tuning run was completed: `kiln tune` "
        "confirms it");
  Record confirmed = example_record(old, 1e-3, "BM=old");
  confirmed.confirmed = true;
  store.publish_best(confirmed);
  CHECK(verdict() ==
        "BM=old is used, from the database, until a few trials confirm it or find a better one: llvm "
        "20.1.0, now " +
            std::string(llvm_version()));
  confirmed.key = std::make_shared<const RecordKey>(key);
  store.publish_best(confirmed);
  CHECK(verdict() ==
        "BM=old is used, from the database: it was confirmed for exactly this problem, silicon and "
        "tools");
  Database database(store);
  const Why all = why(database, key);
  CHECK(all.trials == 2);
  CHECK(all.failures == std::map<std::string, std::size_t>{{"crash", 1}});
  CHECK(all.neighbours.size() == 1);
  CHECK(text_of(all).find("neighbour  M=4096 f32 at distance 3.0 (sizes differ): BM=far in 1 ms") !=
        std::string::npos);

  // With only the kernel's name.
  const auto guessed = guess_key(database, "matmul", {{{"M", 512}}, ""}, cpu);
  REQUIRE(guessed);
  CHECK(guessed->id() == key.id());
  CHECK_FALSE(guess_key(database, "softmax", {{{"M", 512}}, ""}, cpu));
  CHECK_FALSE(guess_key(database, "matmul", {{{"M", 512}}, "f64"}, cpu));
}
