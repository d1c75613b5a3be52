// Records a run's trials, reads those of concurrent runs, and decides whether to publish the winner.
#include <kiln/autotune/run/recorder.h>

#include <kiln/autotune/measure/drift.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>

#include <algorithm>
#include <chrono>

namespace kiln::tune {

namespace {

constexpr const char* cold_fact = "cold"; // the fact of a record whose arguments came from memory
constexpr double silence = 60;            // seconds without a new record after which a search counts as ended

bool is_cold(const Record& record) { return record.result.facts.contains(cold_fact); }

RecordKey key_of(const Task& task) {
  RecordKey key = task.key();
  key.bucketing = task.bucketing;
  return key;
}

} // namespace

Recorder::Recorder(const Task& task, const BoundSpace& space, const TuneOptions& options)
    : key_(std::make_shared<RecordKey>(key_of(task))), problem_(task.problem), space_(space),
      cold_(options.cold), wanted_(options.record) {}

void Recorder::add_trials(const SearchResult& so_far) {
  for (; wanted_ && added_ < so_far.trials.size(); ++added_) {
    const Trial& trial = so_far.trials[added_];
    Record record = record_of(trial.point, trial.result);
    record.source = trial.source, record.predicted = trial.predicted, record.trial = static_cast<int>(added_);
    Database::standard().store().append(std::move(record));
  }
}

std::string Recorder::finish(const SearchResult& result) {
  add_trials(result);
  std::string kept;
  for (std::size_t i = 0; wanted_ && i < result.finalists.size() && i < result.confirmed.size(); ++i) {
    Record record = record_of(result.finalists[i], result.confirmed[i]);
    record.confirmed = true, record.source = "confirmation";
    if (result.best && result.finalists[i] == *result.best && record.result.ok()) {
      kept = better_known(record, result);
      if (kept.empty()) Database::standard().publish(record);
    }
    Database::standard().store().append(std::move(record));
  }
  return kept;
}

News Recorder::news(double reference_seconds) {
  News news;
  const std::string own = RecordStore::session();
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (const Record& record : Database::standard().store().load(Filter::of(*key_), &read_).records) {
    if (record.session == own) continue;
    last_heard_[record.session] = now;
    const auto point = point_of(space_.knobs(), record.config);
    const bool alike = !record.confirmed && record.measured_problem() == problem_ &&
                       (is_cold(record) == cold_ || !record.result.ok()) &&
                       record.result.status != Status::device_lost; // concerns only the other machine
    if (!alike || !point || !space_.contains(*point)) continue;
    news.trials.push_back({*point, record.result, "shared"});
    remove_drift(news.trials.back().result, reference_seconds);
  }
  std::erase_if(last_heard_, [now](const auto& other) { return now - other.second > silence; });
  news.searches = 1 + last_heard_.size();
  news.own_rank = static_cast<std::size_t>(std::distance(last_heard_.begin(), last_heard_.lower_bound(own)));
  return news;
}

// Returns the config in use if the winner must not replace it, else "". A run that did not measure that
// config, because it had few trials, must have found a faster one under the same cache conditions. A run with
// warm caches, which favour small tiles, never replaces a config that was found with cold caches.
std::string Recorder::better_known(const Record& winner, const SearchResult& result) const {
  const std::shared_ptr<const Record> known = Database::standard().store().best(*key_);
  if (!known || !known->confirmed || known->config == winner.config) return {};
  if (known->key->tools.verification != key_->tools.verification) return {};
  const auto point = point_of(space_.knobs(), known->config);
  if (!point || !space_.contains(*point)) return {};
  if (is_cold(*known) && !cold_) return known->config;
  if (result.fell_back) return known->config; // an earlier run had the time to verify it
  const bool measured = std::any_of(result.trials.begin(), result.trials.end(),
                                    [&](const Trial& trial) { return trial.point == *point; });
  const bool faster = is_cold(*known) == cold_ && winner.result.seconds < known->result.seconds;
  return measured || faster ? std::string() : known->config;
}

Record Recorder::record_of(const Point& point, const Measurement& result) const {
  Record record;
  record.key = key_;
  if (!(problem_ == key_->problem)) record.problem = problem_;
  record.config = config_text(space_.knobs(), point);
  record.result = result;
  if (cold_ && result.ok()) record.result.facts[cold_fact] = 1;
  return record;
}

} // namespace kiln::tune
