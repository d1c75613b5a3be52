// Implements lookups in wisdom files and in the store, with their cache.
#include <kiln/autotune/records/database.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/options.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <tuple>
#include <unordered_set>

#include <fmt/format.h>

namespace kiln::tune {
namespace {

constexpr double recheck_seconds = 2;
// Larger segments are not read while a program waits for a config.
constexpr std::uint64_t quick_bytes = 8 << 20;
constexpr std::size_t most_answers = 1 << 16;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool same_tools(const Record& record, const RecordKey& key) {
  const ToolVersions &a = record.key->tools, &b = key.tools;
  const auto same = [](const std::string& x, const std::string& y) {
    return x == y || x.empty() || y.empty();
  };
  return same(a.product, b.product) && same(a.driver, b.driver) && same(a.llvm, b.llvm) &&
         same(a.ptxas, b.ptxas) && same(a.kiln, b.kiln);
}

std::string plural(std::size_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

} // namespace

const char* name(Source source) {
  switch (source) {
  case Source::none: return "nothing";
  case Source::user: return "the user's wisdom";
  case Source::project: return "the program's wisdom";
  case Source::cache: return "the database";
  }
  return "nothing";
}

double distance(const RecordKey& from, const RecordKey& to) {
  if (from.kernel != to.kernel || from.space != to.space) return std::numeric_limits<double>::infinity();
  double squares = 0;
  std::size_t matched = 0;
  for (const auto& [name, size] : to.problem.sizes)
    for (const auto& [other, other_size] : from.problem.sizes)
      if (name == other) {
        ++matched;
        const double ratio = static_cast<double>(std::max<std::int64_t>(size, 1)) /
                             static_cast<double>(std::max<std::int64_t>(other_size, 1));
        squares += std::log2(ratio) * std::log2(ratio);
      }
  double sum = std::sqrt(squares);
  sum += 8.0 * static_cast<double>(from.problem.sizes.size() + to.problem.sizes.size() - 2 * matched);
  // These are chosen, not measured: other silicon changes the best config less than a factor of 16 in one
  // size.
  if (from.problem.kind != to.problem.kind) sum += 4;
  if (from.problem.key != to.problem.key) sum += 0.75;
  if (from.silicon != to.silicon) sum += 4;
  if (from.backend != to.backend) sum += 8;
  if (from.ir != to.ir) sum += 2;
  if (from.code_generation != to.code_generation) sum += 0.5;
  return sum;
}

Database::Database(RecordStore& store) : store_(store) {}

Database& Database::standard() {
  static Database& database = *[] {
    auto made = std::make_unique<Database>(RecordStore::standard());
    const std::string list = read_environment().wisdom;
    for (std::string_view rest = list; !rest.empty();) {
      const std::size_t end = rest.find(':');
      const std::string path(rest.substr(0, end));
      rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
      if (path.empty()) continue;
      const Wisdom wisdom = read_wisdom_file(path);
      if (!wisdom.problem.empty())
        log_warning(fmt::format("{} of KILN_WISDOM is not used: {}", path, wisdom.problem));
      else if (wisdom.bad || wisdom.future)
        log_warning(fmt::format("{} of KILN_WISDOM: {} of {} skipped, {} from a later version of Kiln", path,
                                plural(wisdom.bad + wisdom.future, "record"),
                                wisdom.records.size() + wisdom.bad + wisdom.future, wisdom.future));
      made->add_wisdom(wisdom.records, Source::user);
    }
    return made.release();
  }();
  return database;
}

cache::Key Database::family_of(const RecordKey& key) {
  return cache::KeyBuilder().add(key.kernel).add(key.space.high).add(key.space.low).key();
}

void Database::add_wisdom(const Records& records, Source source) {
  const std::unique_lock lock(mutex_);
  const std::size_t tier = source == Source::user ? 0 : 1;
  for (const auto& record : records) {
    wisdom_[tier][record->key->id()].push_back(record);
    families_[tier][family_of(*record->key)].push_back(record);
  }
  ++changes_;
}

Database::Records Database::wisdom() {
  const std::shared_lock lock(mutex_);
  Records all;
  for (const auto& tier : wisdom_)
    for (const auto& [id, records] : tier)
      all.insert(all.end(), records.begin(), records.end());
  return all;
}

std::size_t Database::add_wisdom(const std::filesystem::path& path) {
  const Wisdom wisdom = read_wisdom_file(path);
  if (!wisdom.problem.empty())
    throw UserError(
        fmt::format("tune::add_wisdom: {}: {}; give a file that `kiln records export --wisdom` wrote",
                    path.string(), wisdom.problem));
  if (wisdom.bad || wisdom.future)
    log_warning(fmt::format("{}: {} of {} skipped, {} from a later version of Kiln", path.string(),
                            plural(wisdom.bad + wisdom.future, "record"),
                            wisdom.records.size() + wisdom.bad + wisdom.future, wisdom.future));
  add_wisdom(wisdom.records, Source::project);
  return wisdom.records.size();
}

std::shared_ptr<const Database::Unconfirmed> Database::unconfirmed_of(const RecordKey& key) {
  Filter filter = Filter::of(key); // all problems of the kernel, since they share segments
  filter.key.reset();
  filter.kind.clear();
  const cache::Key group = cache::KeyBuilder()
                               .add(key.kernel)
                               .add(key.ir.high)
                               .add(key.ir.low)
                               .add(key.space.high)
                               .add(key.space.low)
                               .add(key.silicon)
                               .add(key.backend)
                               .key();
  std::shared_ptr<const Unconfirmed> known;
  {
    const std::shared_lock lock(mutex_);
    if (const auto at = unconfirmed_.find(group); at != unconfirmed_.end()) known = at->second;
  }
  if (known && seconds_now() - known->read_at < recheck_seconds) return known;
  std::uint64_t bytes = 0;
  for (const RecordStore::Segment& segment : store_.segments(filter)) {
    std::uint64_t size = 0;
    if (open_regular(*segment.folder, segment.name, &size)) bytes += size;
  }
  auto found = std::make_shared<Unconfirmed>();
  found->bytes = bytes;
  if (known && known->bytes == bytes)
    found->winners = known->winners;
  else if (bytes != 0 && bytes <= quick_bytes)
    for (const auto& record : winners(store_.load(filter).records))
      found->winners.emplace(record->key->id(), record);
  found->read_at = seconds_now();
  const std::unique_lock lock(mutex_);
  unconfirmed_[group] = found;
  return found;
}

std::shared_ptr<const Record> Database::from_segments(const RecordKey& key, const cache::Key& id) {
  const auto unconfirmed = unconfirmed_of(key);
  const auto found = unconfirmed->winners.find(id);
  return found == unconfirmed->winners.end() ? nullptr : found->second;
}

std::shared_ptr<const Record> Database::from_store(const RecordKey& key, const cache::Key& id) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto own = own_.find(id); own != own_.end()) return own->second;
    if (const auto known = answers_.find(id); known != answers_.end())
      if (known->second.record || seconds_now() - known->second.read_at < recheck_seconds)
        return known->second.record;
  }
  std::shared_ptr<const Record> record = store_.best(key);
  if (!record) record = from_segments(key, id);
  const std::unique_lock lock(mutex_);
  if (answers_.size() >= most_answers) answers_.clear(); // bounds the memory for ever new problems
  answers_[id] = {record, seconds_now()};
  return record;
}

Lookup Database::find_best(const RecordKey& key) { return find_best(key, key.id()); }

namespace {

// A record made with the same tool versions takes precedence; otherwise the first one stays.
void consider(Lookup& best, const std::shared_ptr<const Record>& record, Source source,
              const RecordKey& key) {
  const bool verified = record->key->tools.verification == key.tools.verification;
  const bool same = same_tools(*record, key) && verified;
  if (best.record && (!same || best.same_tools)) return;
  best.record = record;
  best.source = source;
  best.same_tools = same;
  best.verified = verified;
  best.confirmed = source != Source::cache || record->confirmed;
}

} // namespace

void Database::consider_wisdom(const RecordKey& key, const cache::Key& id, Lookup& best) {
  const std::shared_lock lock(mutex_);
  for (const Source source : {Source::user, Source::project})
    if (const auto& tier = wisdom_[source == Source::user ? 0 : 1]; !tier.empty())
      if (const auto found = tier.find(id); found != tier.end())
        for (auto record = found->second.rbegin(); record != found->second.rend(); ++record)
          consider(best, *record, source, key); // later files take precedence
}

Lookup Database::find_wisdom(const RecordKey& key) {
  Lookup best;
  consider_wisdom(key, key.id(), best);
  return best;
}

Lookup Database::find_best(const RecordKey& key, const cache::Key& id) {
  Lookup best;
  consider_wisdom(key, id, best);
  if (best.trusted()) return best;
  if (const auto record = from_store(key, id)) consider(best, record, Source::cache, key);
  if (!best.trusted()) best.neighbours = neighbours(key);
  return best;
}

Database::Listing Database::stored_family(const RecordKey& key) {
  const cache::Key family = family_of(key);
  {
    const std::shared_lock lock(mutex_);
    if (const auto known = listings_.find(family);
        known != listings_.end() && seconds_now() - known->second.read_at < recheck_seconds)
      return known->second;
  }
  Listing listing;
  listing.records = std::make_shared<const Records>(store_.bests(key.kernel, key.space));
  Filter filter;
  filter.kernel = key.kernel;
  filter.space = key.space;
  listing.unconfirmed = !store_.segments(filter).empty();
  listing.read_at = seconds_now();
  const std::unique_lock lock(mutex_);
  return listings_[family] = listing;
}

bool Database::knows(const std::string& kernel, const cache::Key& space) {
  RecordKey key;
  key.kernel = kernel;
  key.space = space;
  const cache::Key family = family_of(key);
  {
    const std::shared_lock lock(mutex_);
    if (families_[0].contains(family) || families_[1].contains(family)) return true;
    for (const auto& [id, record] : own_)
      if (family_of(*record->key) == family) return true;
  }
  const Listing stored = stored_family(key);
  return stored.unconfirmed || !stored.records->empty();
}

std::vector<Neighbour> Database::neighbours(const RecordKey& key, std::size_t most) {
  const cache::Key id = key.id();
  std::vector<Neighbour> list;
  std::unordered_set<cache::Key> seen = {id};
  const auto consider = [&](const std::shared_ptr<const Record>& record, Source source) {
    const double far = distance(*record->key, key);
    if (std::isfinite(far) && seen.insert(record->key->id()).second) list.push_back({record, far, source});
  };
  const auto stored = stored_family(key);
  {
    const std::shared_lock lock(mutex_);
    const cache::Key family = family_of(key);
    for (const Source source : {Source::user, Source::project})
      if (const auto& tier = families_[source == Source::user ? 0 : 1]; !tier.empty())
        if (const auto found = tier.find(family); found != tier.end())
          for (const auto& record : found->second)
            consider(record, source);
    for (const auto& [own_id, record] : own_)
      consider(record, Source::cache);
  }
  for (const auto& record : *stored.records)
    consider(record, Source::cache);
  const auto rank = [](const Neighbour& n) {
    return std::tuple(n.distance, std::string_view(n.record->config), n.record->key->id());
  };
  std::sort(list.begin(), list.end(),
            [&](const Neighbour& a, const Neighbour& b) { return rank(a) < rank(b); });
  if (list.size() > most) list.resize(most);
  return list;
}

bool Database::publish(Record confirmed) {
  confirmed.confirmed = true;
  auto record = std::make_shared<const Record>(std::move(confirmed));
  {
    const std::unique_lock lock(mutex_);
    own_[record->key->id()] = record;
  }
  ++changes_;
  return store_.publish_best(*record);
}

void Database::look_again() {
  const std::unique_lock lock(mutex_);
  std::erase_if(answers_, [](const auto& answer) { return !answer.second.record; });
  unconfirmed_.clear();
  listings_.clear();
  ++changes_;
}

void Database::refresh() {
  const std::unique_lock lock(mutex_);
  answers_.clear();
  listings_.clear();
  unconfirmed_.clear();
  own_.clear();
  ++changes_;
}

} // namespace kiln::tune
