// Tests that the record store loads the records that were appended, even if its files are damaged.
#include <catch2/catch.hpp>

#include "left_out.h"
#include "records_support.h"

#include <algorithm>
#include <chrono>
#include <ctime>

using namespace records_test;

TEST_CASE("appended records are loaded, by any process, with or without a filter", "[records]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "made" / "on" / "demand";
  RecordStore store(path);
  CHECK(store.load().records.empty());
  CHECK_FALSE(fs::exists(path)); // reading creates no folders
  REQUIRE(store.append(example_record(example_key(512), 1e-3)));
  REQUIRE(store.append(example_record(example_key(1024), 2e-3)));
  Record failed = example_record(example_key(512), 0, "BM=128,BN=64");
  failed.result.status = Status::crash;
  failed.result.error = "signal 11";
  REQUIRE(store.append(failed));
  REQUIRE(store.append(example_record(example_key(512, "softmax"), 3e-3)));

  RecordStore other(path);
  const Loaded all = other.load();
  CHECK(all.counts.records == 4);
  CHECK(all.counts.segments == 2); // one per process, kernel and silicon
  CHECK(all.counts.bad + all.counts.torn + all.counts.future + all.counts.duplicates == 0);
  const Loaded one = other.load(Filter::of(example_key(512)));
  REQUIRE(one.records.size() == 2);
  CHECK(one.records[0].result.seconds == 1e-3);
  CHECK(one.records[1].result.status == Status::crash);
  CHECK(one.records[1].result.error == "signal 11");
  Filter kernel;
  kernel.kernel = "softmax";
  CHECK(other.load(kernel).records.size() == 1);
  kernel.kernel = "soft";
  CHECK(other.load(kernel).records.empty());
  RecordKey elsewhere = example_key(512);
  elsewhere.silicon = "sm_90:132sm:227K:50M:144G";
  CHECK(other.load(Filter::of(elsewhere)).records.empty());
}

TEST_CASE("a cursor gives only newer records", "[records]") {
  const TemporaryFolder folder;
  RecordStore writer(folder.path()), reader(folder.path());
  LoadCursor cursor;
  CHECK(reader.load({}, &cursor).records.empty());
  for (int i = 0; i < 5; ++i) {
    writer.append(example_record(example_key(), 1e-3 * (i + 1)));
    const Loaded news = reader.load({}, &cursor);
    REQUIRE(news.records.size() == 1);
    CHECK(news.records[0].result.seconds == 1e-3 * (i + 1));
  }
  // An incomplete line is not consumed: it is read once it is complete.
  const fs::path segment = files_of(folder.path(), ".jsonl").at(0);
  const std::string before = read_bytes(segment);
  const std::string line = to_line(example_record(example_key(), 7));
  write_bytes(segment, before + line.substr(0, 100));
  CHECK(reader.load({}, &cursor).records.empty());
  write_bytes(segment, before + line);
  CHECK(reader.load({}, &cursor).records.size() == 1);
  CHECK(reader.load({}, &cursor).records.empty());
}

TEST_CASE("damaged, incomplete and future lines are skipped and counted", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  for (int i = 0; i < 10; ++i)
    store.append(example_record(example_key(), 1e-3 * (i + 1)));
  const fs::path segment = files_of(folder.path(), ".jsonl").at(0);
  std::string bytes = read_bytes(segment);
  bytes[bytes.size() / 2] ^= 1;
  std::string future = "{\"v\":7,\"new\":true";
  future += ",\"crc\":\"" + to_string(cache::checksum({std::span(future.data(), future.size())})).substr(24) +
            "\"}\n";
  const std::string torn = to_line(example_record(example_key(), 5)).substr(0, 200);
  write_bytes(segment, bytes + "\n\ngarbage\n" + future + torn);
  const Loaded loaded = RecordStore(folder.path()).load();
  CHECK(loaded.counts.records == 9);
  CHECK(loaded.counts.bad == 1 + 2 + 1);
  CHECK(loaded.counts.future == 1);
  CHECK(loaded.counts.torn == 1);
}

TEST_CASE("loading handles segments of arbitrary bytes", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  REQUIRE(store.append(example_record(example_key())));
  const fs::path good = files_of(folder.path(), ".jsonl").at(0);
  const std::string bytes = read_bytes(good);
  const fs::path other = good.parent_path() / "other.jsonl";
  for (int round = 0; round < 200; ++round) {
    std::string fuzzed;
    for (std::size_t parts = random() % 20; parts > 0; --parts)
      switch (random() % 4) {
      case 0: fuzzed += random_text(random, 500); break;
      case 1: fuzzed += bytes.substr(0, random() % bytes.size()); break;
      case 2: fuzzed += std::string(random() % 300, '\0'); break;
      default: fuzzed += std::string(random() % 3, '\n');
      }
    if (random() % 20 == 0) fuzzed += std::string(100'000, 'x');
    write_bytes(other, fuzzed);
    const Loaded loaded = RecordStore(folder.path()).load();
    CHECK(loaded.counts.records == 1);
  }
  // Names of segments that are not regular files.
  fs::remove(other);
  fs::create_directory(other);
  REQUIRE(mkfifo((good.parent_path() / "pipe.jsonl").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", good.parent_path() / "zero.jsonl");
  fs::create_symlink(good, good.parent_path() / "link.jsonl");
  const Loaded loaded = RecordStore(folder.path()).load();
  CHECK(loaded.counts.records == 1);
  CHECK(loaded.counts.duplicates == 0);
  CHECK(loaded.counts.bad == 4);
}

TEST_CASE("the best config is published atomically and found only under its key", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  CHECK_FALSE(store.best(example_key()));
  CHECK(store.publish_best(example_record(example_key(), 1e-3)));
  CHECK(store.publish_best(example_record(example_key(), 2e-3, "BM=16,BN=16"))); // the later one counts
  CHECK(store.publish_best(example_record(example_key(1024), 3e-3)));
  RecordStore other(folder.path());
  REQUIRE(other.best(example_key()));
  CHECK(other.best(example_key())->config == "BM=16,BN=16");
  CHECK(other.bests().size() == 2);
  CHECK(other.bests("matmul", cache::Key{3, 4}).size() == 2);
  CHECK(other.bests("matmul", cache::Key{3, 5}).empty());
  for (const auto change :
       {+[](RecordKey& k) { k.kernel = "matmul2"; }, +[](RecordKey& k) { ++k.ir.low; },
        +[](RecordKey& k) { ++k.space.high; }, +[](RecordKey& k) { k.silicon += "x"; },
        +[](RecordKey& k) { k.backend = "ptx"; }, +[](RecordKey& k) { ++k.code_generation; },
        +[](RecordKey& k) { k.problem.kind = "f16.nn"; },
        +[](RecordKey& k) { k.problem.sizes[0].second = 513; },
        +[](RecordKey& k) { k.problem.sizes[0].first = "m"; },
        +[](RecordKey& k) { k.problem.sizes.pop_back(); }}) {
    RecordKey key = example_key();
    change(key);
    CHECK_FALSE(other.best(key));
  }
  RecordKey key = example_key();
  std::swap(key.problem.sizes[0], key.problem.sizes[1]);
  key.tools.llvm = "23";
  CHECK(other.best(key)); // the same key

  // A damaged file, or one that has another key's name, is ignored.
  const auto files = files_of(folder.path() / "best", ".json");
  REQUIRE(files.size() == 2);
  const std::string first = read_bytes(files[0]), second = read_bytes(files[1]);
  write_bytes(files[0], second);
  write_bytes(files[1], second.substr(0, second.size() / 2));
  CHECK(other.bests().empty());
}

TEST_CASE("the winner is a confirmed config if there is one, and never one that was wrong", "[records]") {
  std::vector<Record> records;
  const auto add = [&](const char* config, double seconds, std::int64_t time) -> Record& {
    records.push_back(example_record(example_key(), seconds, config));
    records.back().time = time;
    return records.back();
  };
  add("BM=16", 5e-3, 1);
  add("BM=32", 1e-3, 2);
  add("BM=64", 2e-3, 3);
  CHECK(winners(records).at(0)->config == "BM=32");
  add("BM=32", 4e-3, 4); // measured again: the first time was an outlier
  CHECK(winners(records).at(0)->config == "BM=64");
  add("BM=64", 2e-3, 5).result.status = Status::wrong_result;
  add("BM=64", 1e-3, 6); // once wrong, never used
  CHECK(winners(records).at(0)->config == "BM=32");
  add("BM=16", 5e-3, 7).confirmed = true;
  CHECK(winners(records).at(0)->config == "BM=16");
  add("BM=16", 1e-3, 8).result.status = Status::crash;
  CHECK(winners(records).at(0)->config == "BM=32");
  for (Record& record : records)
    record.result.status = Status::timeout;
  CHECK(winners(records).empty());
}

TEST_CASE("a hundred thousand records are loaded, and the time is printed", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto count = kiln::test::rounds(100'000);
  std::vector<RecordKey> keys;
  for (int i = 0; i < 20; ++i)
    keys.push_back(example_key(256 * (i + 1)));
  for (int i = 0; i < count; ++i) {
    Record record = example_record(keys[static_cast<std::size_t>(i) * 20 / static_cast<std::size_t>(count)],
                                   random_seconds(random));
    record.trial = i;
    record.config = "BM=" + std::to_string(random() % 256) + ",BN=128,BK=32,order=swizzled,num_warps=8";
    record.result.facts = {
        {"registers", 168}, {"spill_bytes", 0}, {"shared_bytes", 98304}, {"code_bytes", 7000}};
    store.append(record);
  }
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  const Loaded loaded = RecordStore(folder.path()).load();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(loaded.counts.records == static_cast<std::uint64_t>(count));
  WARN("loaded " << count << " records in " << seconds * 1e3 << " ms, "
                 << 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC << " of the CPU");
  // The aim is 200 ms on an otherwise idle machine.
}
