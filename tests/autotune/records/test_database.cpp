// Tests the lookup order (the user's wisdom, the program's, the records on disk) and neighbours.
#include <catch2/catch.hpp>

#include "records_support.h"

#include <kiln/dsl/error.h>

#include <chrono>
#include <thread>

using namespace records_test;

namespace {

std::vector<std::shared_ptr<const Record>> one(Record record) {
  return {std::make_shared<const Record>(std::move(record))};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

TEST_CASE("wisdom of the user comes first, then the program's, then the records", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  Database database(store);
  const RecordKey key = example_key();
  CHECK_FALSE(database.find_best(key));
  CHECK(database.publish(example_record(key, 1e-3, "BM=1")));
  Lookup found = database.find_best(key);
  CHECK(found.trusted());
  CHECK(found.source == Source::cache);
  CHECK(found.record->config == "BM=1");
  CHECK(found.neighbours.empty());
  database.add_wisdom(one(example_record(key, 2e-3, "BM=2")), Source::project);
  CHECK(database.find_best(key).source == Source::project);
  database.add_wisdom(one(example_record(key, 3e-3, "BM=3")), Source::user);
  CHECK(database.find_best(key).source == Source::user);
  CHECK(database.find_best(key).record->config == "BM=3");

  // Another process sees what was published, but not this process's wisdom.
  RecordStore again(folder.path());
  CHECK(Database(again).find_best(key).record->config == "BM=1");
}

TEST_CASE("records of other tool versions are used but not trusted, and trusted ones take precedence",
          "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  Database database(store);
  RecordKey old = example_key();
  old.tools.llvm = "21.0.0";
  database.add_wisdom(one(example_record(old, 1e-3, "BM=2")), Source::user);
  const Lookup stale = database.find_best(example_key());
  REQUIRE(stale.record);
  CHECK_FALSE(stale.trusted());
  CHECK_FALSE(stale.same_tools);
  CHECK(soft_differences(stale.record->key->tools, example_key().tools) ==
        std::vector<std::string>{"llvm 21.0.0, now 22.1.8"});
  database.publish(example_record(example_key(), 1e-3, "BM=4"));
  CHECK(database.find_best(example_key()).record->config == "BM=4");
  CHECK(database.find_wisdom(example_key()).record->config == "BM=2"); // only in the files
  CHECK_FALSE(database.find_wisdom(example_key(1024)));
  CHECK(database.find_best(example_key()).trusted());
  CHECK(database.find_best(old).record->config == "BM=2");
  RecordKey silent = example_key();
  silent.tools = {};
  silent.tools.verification = tune::verification_version;
  CHECK(database.find_best(silent).trusted()); // unknown versions are not compared
}

TEST_CASE("winners of neighbours are listed, nearest first, and silicon never matches by chance",
          "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  Database database(store);
  database.publish(example_record(example_key(4096), 1e-3, "BM=4096"));
  database.publish(example_record(example_key(1024), 1e-3, "BM=1024"));
  database.publish(example_record(example_key(256), 1e-3, "BM=256"));
  RecordKey gpu = example_key(512);
  gpu.silicon = "sm_90:132sm:227K:50M:144G", gpu.backend = "ptx";
  database.add_wisdom(one(example_record(gpu, 1e-5, "BM=gpu")), Source::project);
  RecordKey other_space = example_key(512);
  other_space.space = {9, 9};
  database.publish(example_record(other_space, 1e-3, "BM=space"));
  database.publish(example_record(example_key(512, "softmax"), 1e-3, "BM=kernel"));

  const Lookup found = database.find_best(example_key(512));
  CHECK_FALSE(found.record);
  REQUIRE(found.neighbours.size() == 4);
  CHECK(found.neighbours[0].distance == Approx(1));
  CHECK(found.neighbours[1].distance == Approx(1));
  CHECK(found.neighbours[0].record->config == "BM=1024"); // ties by text
  CHECK(found.neighbours[1].record->config == "BM=256");
  CHECK(found.neighbours[2].record->config == "BM=4096");
  CHECK(found.neighbours[3].record->config == "BM=gpu");
  CHECK(database.neighbours(example_key(8192), 1).at(0).record->config == "BM=4096");
  CHECK(database.find_best(gpu).record->config == "BM=gpu");
}

TEST_CASE("the result of an interrupted tuning run is found, unconfirmed", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  store.append(example_record(example_key(), 2e-3, "BM=2"));
  store.append(example_record(example_key(), 1e-3, "BM=1"));
  Database database(store);
  const Lookup found = database.find_best(example_key());
  REQUIRE(found.record);
  CHECK(found.record->config == "BM=1");
  CHECK_FALSE(found.confirmed);
  CHECK_FALSE(found.trusted());
}

TEST_CASE("a config that another process publishes is seen after a refresh", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path()), other(folder.path());
  Database database(store), theirs(other);
  CHECK_FALSE(database.find_best(example_key()));
  theirs.publish(example_record(example_key()));
  database.refresh();
  CHECK(database.find_best(example_key()));
}

TEST_CASE("wisdom files are read regardless of their formatting", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path() / "store");
  const std::string text = wisdom_text({std::make_shared<Record>(example_record(example_key(512))),
                                        std::make_shared<Record>(example_record(example_key(1024)))});
  CHECK(looks_like_wisdom(text));
  std::string spread;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    spread += c;
    if (!quoted && (c == '{' || c == ',' || c == ':')) spread += "\n\t ";
  }
  for (const std::string& version : {text, spread}) {
    const fs::path path = folder.path() / "wisdom.json";
    write_bytes(path, version);
    Database database(store);
    CHECK(database.add_wisdom(path) == 2);
    CHECK(database.find_best(example_key(1024)).trusted());
  }
  const Wisdom empty = read_wisdom(wisdom_text({}));
  CHECK(empty.problem.empty());
  CHECK(empty.records.empty());
}

TEST_CASE("an invalid wisdom file is an error, and invalid records in one are counted", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path() / "store");
  Database database(store);
  const fs::path path = folder.path() / "wisdom.json";
  const auto message = [&](std::string_view text) -> std::string {
    write_bytes(path, text);
    try {
      database.add_wisdom(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string none =
      "tune::add_wisdom: " + path.string() +
      ": it is not a wisdom file, which is JSON that begins with {\"kiln_wisdom\":1,\"records\":[; "
      "give a file that `kiln records export --wisdom` wrote";
  CHECK(message("") == none);
  CHECK(message("[]") == none);
  CHECK_THAT(message(wisdom_text({}).substr(0, 20)),
             Catch::Contains(": it is not valid JSON from line 1, column 21 on; give"));
  CHECK_THAT(message("{\"kiln_wisdom\":1,\n\"records\":[{}\n {}]}"),
             Catch::Contains("from line 3, column 2 on;"));
  CHECK(message("{\"kiln_wisdom\":9,\"records\":[{}]}") ==
        "tune::add_wisdom: " + path.string() +
            ": its version is 9, but this Kiln reads versions up to 1; give a file that `kiln records export "
            "--wisdom` "
            "wrote");
  fs::remove(path);
  CHECK_THROWS_WITH(database.add_wisdom(path), Catch::Contains("No such file or directory"));
  CHECK_THROWS_WITH(database.add_wisdom(folder.path()), Catch::Contains("it is not a regular file"));

  Record failed = example_record(example_key(64));
  failed.result.status = Status::crash;
  std::string text = wisdom_text(
      {std::make_shared<Record>(example_record(example_key(512))), std::make_shared<Record>(failed)});
  text.insert(text.rfind("\n]"), ",\n{\"v\":2,\"later\":[]},\n17,\n{\"v\":1}");
  const Wisdom wisdom = read_wisdom(text);
  CHECK(wisdom.problem.empty());
  CHECK(wisdom.records.size() == 1);
  CHECK(wisdom.future == 1);
  CHECK(wisdom.bad == 3);
}

TEST_CASE("reading wisdom handles arbitrary text", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string text = wisdom_text({std::make_shared<Record>(example_record(example_key(512)))});
  std::size_t read = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string fuzzed = text;
    for (std::size_t changes = random() % 3; changes > 0; --changes)
      fuzzed[random() % fuzzed.size()] = static_cast<char>(random());
    if (random() % 4 == 0) fuzzed.resize(random() % fuzzed.size());
    read += read_wisdom(fuzzed).records.size();
  }
  CHECK(read > 0);
}

TEST_CASE("the records of a kernel are read once for all of its problems", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  for (int i = 1; i <= 50; ++i)
    CHECK(store.append(example_record(example_key(128 * i), 1e-3, "BM=" + std::to_string(i))));
  Database database(store);
  REQUIRE(database.find_best(example_key(128)).record);
  const auto segments = files_of(folder.path(), ".jsonl");
  for (const auto& file : segments)
    fs::rename(file, file.string() + ".away");
  for (int i = 2; i <= 50; ++i) {
    const Lookup found = database.find_best(example_key(128 * i));
    REQUIRE(found.record);
    CHECK(found.record->config == "BM=" + std::to_string(i));
    CHECK_FALSE(found.trusted());
  }
  CHECK_FALSE(database.find_best(example_key(1)).record); // no other record is used for it
  database.refresh();
  CHECK_FALSE(database.find_best(example_key(128)).record);
  for (const auto& file : segments)
    fs::rename(file.string() + ".away", file);
  database.refresh();
  CHECK(database.find_best(example_key(128)).record);
}

TEST_CASE("a lookup caches what it read, and its time is printed", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  std::vector<RecordKey> keys;
  {
    Database writer(store);
    for (int i = 0; i < 50; ++i) {
      keys.push_back(example_key(128 * (i + 1)));
      writer.publish(example_record(keys.back()));
    }
  }
  Database database(store);
  database.find_best(example_key(1)); // warms everything up
  double cold = 0, hot = 1, hot_with_id = 1;
  for (const RecordKey& key : keys) {
    const auto start = std::chrono::steady_clock::now();
    CHECK(database.find_best(key).trusted());
    cold += seconds_since(start);
  }
  int found = 0;
  for (int round = 0; round < 20; ++round) {
    constexpr int times = 2000;
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i)
      found += database.find_best(keys[static_cast<std::size_t>(i) % keys.size()]).trusted();
    hot = std::min(hot, seconds_since(start) / times);
    const cache::Key id = keys[0].id();
    start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i)
      found += database.find_best(keys[0], id).trusted();
    hot_with_id = std::min(hot_with_id, seconds_since(start) / times);
  }
  CHECK(found == 80000);
  cold /= static_cast<double>(keys.size());
  WARN("a lookup takes " << cold * 1e6 << " us cold, " << hot * 1e9 << " ns hot, " << hot_with_id * 1e9
                         << " ns hot with the key's id");
  CHECK(hot < cold); // repeated lookups are cached
}

TEST_CASE("threads look up and publish at once", "[records]") {
  const TemporaryFolder folder;
  RecordStore store(folder.path());
  Database database(store);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const RecordKey key = example_key(1 + (i + t) % 10);
        const std::string config = "BM=" + std::to_string(key.problem.sizes[0].second);
        if (t % 2) database.publish(example_record(key, 1e-3, config));
        store.append(example_record(key, 1e-3, config));
        const Lookup found = database.find_best(key);
        if (found.record && found.record->config != config) ++wrong;
        if (t == 0 && i % 10 == 0) database.refresh();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(RecordStore(folder.path()).load().counts.records ==
        400 - RecordStore(folder.path()).load().counts.duplicates);
}
