// Tests that record lines are read as they were written, and that other text is rejected.
#include <catch2/catch.hpp>

#include "records_support.h"

#include <cmath>
#include <limits>

using namespace records_test;

namespace {

std::string without_newline(std::string line) {
  REQUIRE_FALSE(line.empty());
  REQUIRE(line.back() == '\n');
  line.pop_back();
  return line;
}

// Returns random ASCII, which must be read back unchanged, unlike bytes that are not UTF-8.
std::string random_ascii(std::mt19937_64& random, std::size_t most) {
  std::string text = random_text(random, most);
  for (char& c : text)
    c = static_cast<char>(c & 0x7f);
  return text;
}

Record random_record(std::mt19937_64& random) {
  RecordKey key;
  key.kernel = "k" + random_ascii(random, 20);
  key.ir = {random(), random()};
  key.space = {random(), random()};
  for (std::size_t i = random() % 5; i > 0; --i)
    key.problem.sizes.emplace_back(random_ascii(random, 6), static_cast<std::int64_t>(random()));
  key.problem.kind = random_ascii(random, 10);
  key.silicon = random_ascii(random, 40);
  key.backend = random_ascii(random, 5);
  key.code_generation = static_cast<int>(random() % 1000);
  key.tools = {random_ascii(random, 30), random_ascii(random, 5), random_ascii(random, 5),
               random_ascii(random, 5), random_ascii(random, 5)};
  Record record;
  record.key = std::make_shared<const RecordKey>(key);
  record.config = "BM=" + random_ascii(random, 50);
  Measurement& m = record.result;
  m.status = static_cast<Status>(random() % 11);
  m.error = random_ascii(random, 200);
  for (double* value :
       {&m.seconds, &m.low, &m.high, &m.relative, &m.compile_seconds, &m.run_seconds, &record.predicted})
    *value = random() % 4 ? random_seconds(random) : 0;
  m.launches = static_cast<int>(random() % 100);
  for (std::size_t i = random() % 6; i > 0; --i)
    m.facts[random_ascii(random, 12)] = random() % 3 ? random_seconds(random) : 0;
  record.confirmed = random() % 2;
  record.source = random_ascii(random, 10);
  record.time = static_cast<std::int64_t>(random() >> 20);
  record.session = random_ascii(random, 12);
  record.trial = static_cast<int>(random() % 1000);
  if (random() % 2) {
    record.problem = key.problem;
    for (auto& [name, size] : record.problem.sizes)
      size /= 2;
    if (record.problem == key.problem) record.problem = {};
    if (record.problem.sizes.empty()) record.problem = {};
  }
  return record;
}

void check_same(const Record& a, const Record& b) {
  CHECK(a.key->id() == b.key->id());
  CHECK(hard_differences(*a.key, *b.key).empty());
  CHECK(a.key->tools == b.key->tools);
  CHECK(a.problem == b.problem);
  CHECK(a.config == b.config);
  CHECK(a.result.status == b.result.status);
  CHECK(a.result.error == b.result.error);
  CHECK(a.result.seconds == b.result.seconds);
  CHECK(a.result.low == b.result.low);
  CHECK(a.result.high == b.result.high);
  CHECK(a.result.launches == b.result.launches);
  CHECK(a.result.relative == b.result.relative);
  CHECK(a.result.facts == b.result.facts);
  CHECK(a.result.compile_seconds == b.result.compile_seconds);
  CHECK(a.result.run_seconds == b.result.run_seconds);
  CHECK(a.confirmed == b.confirmed);
  CHECK(a.source == b.source);
  CHECK(a.predicted == b.predicted);
  CHECK(a.time == b.time);
  CHECK(a.session == b.session);
  CHECK(a.trial == b.trial);
}

} // namespace

TEST_CASE("a record is read back from its line unchanged", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  LineReader reader; // one for all, since cached keys must not mix
  std::vector<Record> records;
  for (int i = 0; i < 200; ++i) {
    records.push_back(random_record(random));
    if (i % 3 == 0 && i > 0) records.back().key = records[random() % records.size()].key;
    if (records.back().problem.sizes.size()) records.back().problem.kind = records.back().key->problem.kind;
    const std::string line = without_newline(to_line(records.back()));
    CAPTURE(line);
    REQUIRE(check_line(line) == LineState::good);
    const auto read = reader.read(line);
    REQUIRE(read);
    if (records.back().problem == records.back().key->problem) records.back().problem = {};
    check_same(*read, records.back());
    const auto again = reader.read(line);
    REQUIRE(again);
    CHECK(again->key == read->key); // shared, not parsed twice
    check_same(*again, records.back());
    // Wisdom has the same JSON without the checksum.
    const auto edited = LineReader().read(to_json(records.back()));
    REQUIRE(edited);
    check_same(*edited, records.back());
  }
}

TEST_CASE("text that is not UTF-8 is stored as valid JSON", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    Record record = example_record(example_key());
    record.result.error = random_text(random, 100);
    const std::string line = without_newline(to_line(record));
    REQUIRE(check_line(line) == LineState::good);
    const auto read = LineReader().read(line);
    REQUIRE(read);
    CHECK(line.find_first_of("\r\n") == line.npos);
    const auto is_valid = [&](const std::string& text) { // a copy with this text gives the same line
      Record copy = record;
      copy.result.error = text;
      return to_line(copy) == line + "\n";
    };
    CHECK(is_valid(read->result.error));
  }
}

TEST_CASE("numbers that JSON lacks are left out", "[records]") {
  Record record = example_record(example_key());
  record.result.seconds = std::numeric_limits<double>::infinity();
  record.result.high = std::numeric_limits<double>::quiet_NaN();
  record.result.facts["registers"] = std::numeric_limits<double>::infinity();
  record.result.facts["spills"] = 0;
  const std::string line = without_newline(to_line(record));
  CHECK(line.find("inf") == line.npos);
  CHECK(line.find("nan") == line.npos);
  const auto read = LineReader().read(line);
  REQUIRE(read);
  CHECK(read->result.seconds == 0);
  CHECK(read->result.facts == std::map<std::string, double>{{"spills", 0}});
}

TEST_CASE("a line is bad after any change to it", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string line = without_newline(to_line(example_record(example_key())));
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = line;
    switch (random() % 4) {
    case 0: damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8); break;
    case 1: damaged.resize(random() % damaged.size()); break;
    case 2: damaged.erase(random() % damaged.size(), 1 + random() % 20); break;
    case 3: damaged.insert(random() % damaged.size(), random_text(random, 20) + "x"); break;
    }
    if (damaged == line) continue;
    CAPTURE(damaged);
    CHECK(check_line(damaged) == LineState::bad);
  }
}

TEST_CASE("a line of a later version is not a bad line", "[records]") {
  std::string future = "{\"v\":2,\"anything\":[1,2,{}]";
  const std::string sum = to_string(cache::checksum({std::span(future.data(), future.size())})).substr(24);
  future += ",\"crc\":\"" + sum + "\"}";
  CHECK(check_line(future) == LineState::future);
  future[5] = '3';
  CHECK(check_line(future) == LineState::bad);
}

TEST_CASE("reading handles any text, and never reads past its end", "[records]") {
  const auto seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string line = to_json(example_record(example_key()));
  LineReader reader;
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = random() % 4 ? line : random_text(random, 300);
    for (std::size_t changes = random() % 4; changes > 0 && !text.empty(); --changes) {
      static constexpr char marks[] = "{}[]\",:\\u0123456789eE+-.tfn \n";
      text[random() % text.size()] = marks[random() % (sizeof marks - 1)];
    }
    if (random() % 8 == 0) text.resize(random() % (text.size() + 1));
    const std::vector<char> exact(text.begin(), text.end()); // so that sanitizers detect reads past the end
    read += reader.read(std::string_view(exact.data(), exact.size())) != nullptr;
    check_line(std::string_view(exact.data(), exact.size()));
  }
  CHECK(read > 0);
  for (const char* text : {"", "{", "{}", "[", "{\"config\":", "{\"config\":\"\\", "{\"config\":\"\\u12",
                           "nul", "{\"v\":1e99999}", "{\"trial\":99999999999999999999}"}) {
    CAPTURE(text);
    CHECK_FALSE(reader.read(text));
  }
  CHECK_FALSE(reader.read(std::string(100'000, '[')));
  CHECK_FALSE(reader.read("{\"x\":" + std::string(100'000, '{')));
}

TEST_CASE("a record that does not fit into a line is not written", "[records]") {
  Record record = example_record(example_key());
  record.config = "BM=" + std::string(100'000, '1');
  CHECK(to_line(record).empty());
}

TEST_CASE("texts of configs convert to points and to configs", "[records]") {
  std::vector<Knob> knobs(3);
  knobs[0] = {.name = "BM", .values = {16, 32, 64}, .labels = {}, .ordered = true};
  knobs[1] = {.name = "order", .values = {0, 1}, .labels = {"rows", "swizzled"}, .ordered = false};
  knobs[2] = {.name = "shift", .values = {-1, 0, 1}, .labels = {}, .ordered = true};
  const Point point = {2, 1, 0};
  const std::string text = config_text(knobs, point);
  CHECK(text == "BM=64,order=swizzled,shift=-1");
  CHECK(point_of(knobs, text) == point);
  CHECK(point_of(knobs, "shift=-1,order=swizzled,BM=64") == point);
  CHECK_FALSE(point_of(knobs, "BM=64,order=swizzled"));
  CHECK_FALSE(point_of(knobs, "BM=48,order=swizzled,shift=-1"));
  CHECK_FALSE(point_of(knobs, "BM=64,order=swizzled,shift=-1,more=1"));
  CHECK_FALSE(point_of(knobs, "nonsense"));
  CHECK(config_of(text).to_string() == "BM=64,shift=-1");

  // Words of any form, as in recorded tables.
  knobs[1] = {
      .name = "order", .values = {0, 1, 2}, .labels = {"a", "a,shift=0", "(1,2)=b,"}, .ordered = false};
  for (std::uint16_t word = 0; word < 3; ++word)
    CHECK(point_of(knobs, config_text(knobs, {1, word, 2})) == Point{1, word, 2});
}
