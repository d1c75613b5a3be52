// Writes a run's trials into the database as they are measured, and reads the trials of concurrent runs.
#pragma once

#include <kiln/autotune/records/store.h>
#include <kiln/autotune/search/result.h>
#include <kiln/autotune/space/space.h>

#include <map>
#include <memory>
#include <string>

namespace kiln::tune {

struct Task;
struct TuneOptions;

// Records each trial of a run as soon as it is measured. If the process is killed, only the current trial is
// lost.
class Recorder {
public:
  Recorder(const Task& task, const BoundSpace& space, const TuneOptions& options);

  const RecordKey& key() const { return *key_; }

  void add_trials(const SearchResult& so_far);

  // Records the confirmed results and publishes the winner if it was confirmed. If launches keep using a
  // previous config that is better, returns that config; otherwise returns an empty string.
  std::string finish(const SearchResult& result);

  // Returns the trials that other processes have recorded for the same key since the last call, if they were
  // measured under the same conditions. Those machines may have been faster or slower, so their times
  // relative to the reference are converted to seconds of this run, in which the reference took
  // `reference_seconds`.
  News news(double reference_seconds);
  // Skips the records that existed before the run; these are used only to start the search.
  void skip_old_news() { news(0), last_heard_.clear(); }

private:
  std::string better_known(const Record& winner, const SearchResult& result) const;
  Record record_of(const Point& point, const Measurement& result) const;

  std::shared_ptr<const RecordKey> key_;
  Problem problem_;
  const BoundSpace& space_;
  bool cold_, wanted_;
  std::size_t added_ = 0;
  LoadCursor read_;                          // the position up to which news() has read
  std::map<std::string, double> last_heard_; // when news() last found a record of each other process
};

} // namespace kiln::tune
