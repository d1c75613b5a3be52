// What a run writes into the database while it goes on, and what it hears there from others.
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

// Keeps each trial of a run as soon as there is one: what ends this process loses the one that it is at.
class Recorder {
public:
  Recorder(const Task& task, const BoundSpace& space, const TuneOptions& options);

  const RecordKey& key() const { return *key_; }

  void add_trials(const SearchResult& so_far);

  // A search that was interrupted keeps its trials, and publishes nothing that was not confirmed.
  // The config that launches use as before, if that stays; else empty.
  std::string finish(const SearchResult& result);

  // What others have kept of this question since it was last asked, if it was measured as here. The machine
  // may have been faster or slower for them: what they say in terms of the reference becomes seconds of this
  // run, where it took `reference_seconds`.
  News news(double reference_seconds);
  // What was there before is for the start alone.
  void skip_old_news() { news(0), heard_.clear(); }

private:
  std::string better_known(const Record& winner, const SearchResult& result) const;
  Record record_of(const Point& point, const Measurement& result) const;

  std::shared_ptr<const RecordKey> key_;
  Problem problem_;
  const BoundSpace& space_;
  bool cold_, wanted_;
  std::size_t added_ = 0;
  LoadCursor read_;                     // up to where news() has read
  std::map<std::string, double> heard_; // when, of each other session
};

} // namespace kiln::tune
