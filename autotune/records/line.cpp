// Writes, checks and reads record lines.
#include <kiln/autotune/records/line.h>

#include <kiln/autotune/records/json_cursor.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace kiln::tune {
namespace {

constexpr std::string_view crc_start = ",\"crc\":\"";
constexpr std::size_t crc_tail = crc_start.size() + 8 + 2; // ,"crc":"5d2e11aa"}
constexpr std::size_t most_error_bytes = 1000;
constexpr std::size_t most_known_keys = 64;

// Returns the length of the UTF-8 sequence that begins here, or 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : (first & 0xF0) == 0xE0        ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) >= 0xA0) return 0; // a surrogate
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) >= 0x90) return 0;
  return length;
}

void put_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (length == 0)
      out += '?';
    else if (c == '"' || c == '\\')
      out += '\\', out += text[0];
    else if (c < 0x20 || c == 0x7f)
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

// Writes the members of an object one after the other.
class Object {
public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  void end() { out_ += '}'; }

  std::string& name(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    put_string(out_, name);
    out_ += ':';
    return out_;
  }
  void add(std::string_view key, std::string_view text) { put_string(name(key), text); }
  void add_if(std::string_view key, std::string_view text) {
    if (!text.empty()) add(key, text);
  }
  template <std::integral T> void add(std::string_view key, T number) {
    fmt::format_to(std::back_inserter(name(key)), "{}", number);
  }
  // Omits infinities and NaN, which JSON does not have.
  void add_if(std::string_view key, double number) {
    if (number != 0 && std::isfinite(number)) fmt::format_to(std::back_inserter(name(key)), "{}", number);
  }

private:
  std::string& out_;
  bool first_ = true;
};

void put_sizes(std::string& out, const Problem& problem) {
  Object sizes(out);
  for (const auto& [name, size] : problem.sizes)
    sizes.add(name, size);
  sizes.end();
}

void put_key(std::string& out, const RecordKey& key) {
  Object object(out);
  object.add("kernel", key.kernel);
  object.add("ir", to_string(key.ir));
  object.add("space", to_string(key.space));
  put_sizes(object.name("sizes"), key.problem);
  object.add("kind", key.problem.kind);
  object.add_if("key", key.problem.key);
  object.add("silicon", key.silicon);
  object.add("backend", key.backend);
  object.add("codegen", key.code_generation);
  object.add_if("bucketing", key.bucketing);
  object.end();
}

void put_tools(std::string& out, const ToolVersions& tools) {
  Object object(out);
  object.add_if("product", tools.product);
  object.add_if("driver", tools.driver);
  object.add_if("llvm", tools.llvm);
  object.add_if("ptxas", tools.ptxas);
  object.add_if("kiln", tools.kiln);
  if (tools.verification) object.add("verification", tools.verification);
  object.end();
}

void put_result(Object& object, const Measurement& m) {
  object.add("status", name(m.status));
  object.add_if("error", std::string_view(m.error).substr(0, most_error_bytes));
  object.add_if("seconds", m.seconds);
  object.add_if("low", m.low);
  object.add_if("high", m.high);
  if (m.launches) object.add("launches", m.launches);
  object.add_if("relative", m.relative);
  if (!m.facts.empty()) {
    Object facts(object.name("facts"));
    for (const auto& [fact, value] : m.facts)
      if (value == 0)
        facts.add(fact, 0);
      else
        facts.add_if(fact, value);
    facts.end();
  }
  object.add_if("compile_seconds", m.compile_seconds);
  object.add_if("run_seconds", m.run_seconds);
}

// Returns the JSON of a record without the closing brace.
std::string open_json(const Record& record) {
  std::string out;
  out.reserve(700);
  Object object(out);
  object.add("v", record_version);
  put_key(object.name("key"), *record.key);
  put_tools(object.name("tools"), record.key->tools);
  if (!record.problem.sizes.empty() && !(record.problem == record.key->problem))
    put_sizes(object.name("problem"), record.problem);
  object.add("config", record.config);
  put_result(object, record.result);
  if (record.confirmed) object.name("confirmed") += "true";
  object.add_if("source", record.source);
  object.add_if("predicted", record.predicted);
  object.add("time", record.time);
  object.add_if("session", record.session);
  if (record.trial) object.add("trial", record.trial);
  return out;
}

cache::Key hash_of(std::string_view text) { return cache::checksum({std::span(text.data(), text.size())}); }

void put_crc(char* digits, const cache::Key& hash) {
  for (int i = 0; i < 8; ++i)
    digits[i] = "0123456789abcdef"[hash.low >> (28 - 4 * i) & 15];
}

void read_sizes(JsonCursor& json, Problem& problem) {
  json.object([&](std::string_view name) {
    std::string owned(name);
    const std::int64_t size = json.integer<std::int64_t>();
    problem.sizes.emplace_back(std::move(owned), size);
  });
}

cache::Key read_hash(JsonCursor& json) {
  const std::optional<cache::Key> hash = cache::parse_key(json.string());
  if (!hash) json.fail();
  return hash.value_or(cache::Key{});
}

void read_key(JsonCursor& json, RecordKey& key) {
  json.object([&](std::string_view name) {
    if (name == "kernel")
      key.kernel = json.string();
    else if (name == "ir")
      key.ir = read_hash(json);
    else if (name == "space")
      key.space = read_hash(json);
    else if (name == "sizes")
      read_sizes(json, key.problem);
    else if (name == "kind")
      key.problem.kind = json.string();
    else if (name == "key")
      key.problem.key = json.string();
    else if (name == "silicon")
      key.silicon = json.string();
    else if (name == "backend")
      key.backend = json.string();
    else if (name == "codegen")
      key.code_generation = json.integer<int>();
    else if (name == "bucketing")
      key.bucketing = json.string();
    else
      json.skip();
  });
}

void read_tools(JsonCursor& json, ToolVersions& tools) {
  json.object([&](std::string_view name) {
    if (name == "product")
      tools.product = json.string();
    else if (name == "driver")
      tools.driver = json.string();
    else if (name == "llvm")
      tools.llvm = json.string();
    else if (name == "ptxas")
      tools.ptxas = json.string();
    else if (name == "kiln")
      tools.kiln = json.string();
    else if (name == "verification")
      tools.verification = json.integer<int>();
    else
      json.skip();
  });
}

void read_facts(JsonCursor& json, std::map<std::string, double>& facts) {
  json.object([&](std::string_view name) {
    const auto at = facts.emplace_hint(facts.end(), std::string(name), 0.0);
    at->second = json.real();
  });
}

bool read_result_member(JsonCursor& json, std::string_view name, Measurement& m) {
  if (name == "status") {
    const std::optional<Status> status = parse_status(json.string());
    if (!status) json.fail();
    m.status = status.value_or(Status::ok);
  } else if (name == "error")
    m.error = json.string();
  else if (name == "seconds")
    m.seconds = json.real();
  else if (name == "low")
    m.low = json.real();
  else if (name == "high")
    m.high = json.real();
  else if (name == "launches")
    m.launches = json.integer<int>();
  else if (name == "relative")
    m.relative = json.real();
  else if (name == "facts")
    read_facts(json, m.facts);
  else if (name == "compile_seconds")
    m.compile_seconds = json.real();
  else if (name == "run_seconds")
    m.run_seconds = json.real();
  else
    return false;
  return true;
}

// Returns the beginning of a line that many lines share, so that it is parsed only once.
std::string_view key_text(std::string_view line, const char* key_end) {
  return line.substr(0, static_cast<std::size_t>(key_end - line.data()));
}

} // namespace

std::string to_json(const Record& record) { return open_json(record) + '}'; }

std::string to_line(const Record& record) {
  std::string line = open_json(record);
  char crc[8];
  put_crc(crc, hash_of(line));
  ((line += crc_start).append(crc, sizeof crc)) += "\"}\n";
  if (line.size() > most_line_bytes) line.clear();
  return line;
}

LineState check_line(std::string_view line, cache::Key* id) {
  constexpr std::string_view start = "{\"v\":";
  if (line.size() <= start.size() + crc_tail || line.size() > most_line_bytes || !line.starts_with(start))
    return LineState::bad;
  const std::string_view body = line.substr(0, line.size() - crc_tail);
  const std::string_view tail = line.substr(body.size());
  if (!tail.starts_with(crc_start) || !tail.ends_with("\"}")) return LineState::bad;
  const cache::Key hash = hash_of(body);
  char crc[8];
  put_crc(crc, hash);
  if (tail.substr(crc_start.size(), 8) != std::string_view(crc, sizeof crc)) return LineState::bad;
  int version = 0;
  const char* digits = line.data() + start.size();
  const auto [end, error] = std::from_chars(digits, digits + 9, version);
  if (error != std::errc() || *end != ',' || version < 1) return LineState::bad;
  if (id) *id = hash;
  return version > record_version ? LineState::future : LineState::good;
}

bool LineReader::read_into(std::string_view line, Record& record) {
  JsonCursor json(line);
  const auto member = [&](std::string_view name) {
    if (read_result_member(json, name, record.result)) return;
    if (name == "config")
      record.config = json.string();
    else if (name == "problem")
      read_sizes(json, record.problem);
    else if (name == "confirmed")
      record.confirmed = json.boolean();
    else if (name == "source")
      record.source = json.string();
    else if (name == "predicted")
      record.predicted = json.real();
    else if (name == "time")
      record.time = json.integer<std::int64_t>();
    else if (name == "session")
      record.session = json.string();
    else if (name == "trial")
      record.trial = json.integer<int>();
    else
      json.skip();
  };
  const auto known =
      std::find_if(known_.begin(), known_.end(), [&](const KnownKey& k) { return line.starts_with(k.text); });
  if (known != known_.end()) {
    std::rotate(known_.begin(), known, known + 1);
    record.key = known_.front().key;
    json = JsonCursor(line.substr(known_.front().text.size()));
    json.members(member);
  } else {
    auto key = std::make_shared<RecordKey>();
    bool leads = true; // only the version, the key and its tools so far
    const char* key_end = nullptr;
    json.object([&](std::string_view name) {
      if (name == "v") return json.skip();
      if (name == "key")
        read_key(json, *key);
      else if (name == "tools") {
        read_tools(json, key->tools);
        if (leads && json.ok()) key_end = json.position();
      } else {
        leads = false;
        member(name);
      }
    });
    if (!json.ok() || key->kernel.empty()) return false;
    record.key = std::move(key);
    if (key_end) {
      if (known_.size() == most_known_keys) known_.pop_back();
      known_.insert(known_.begin(), {std::string(key_text(line, key_end)), record.key});
    }
  }
  if (!record.problem.sizes.empty()) {
    record.problem.kind = record.key->problem.kind;
    record.problem.key = record.key->problem.key;
  }
  return json.ok() && json.at_end() && !record.config.empty();
}

std::shared_ptr<Record> LineReader::read(std::string_view line) {
  auto record = std::make_shared<Record>();
  return read_into(line, *record) ? record : nullptr;
}

} // namespace kiln::tune
