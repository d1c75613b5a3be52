// Implements the cache of schedules, which all ranks of the process share.
#include <kiln/collectives/schedule/schedule_cache.h>

#include <list>
#include <mutex>
#include <unordered_map>

namespace kiln::collectives {
namespace {

constexpr std::size_t most_steps = std::size_t{1} << 18;

using CacheKey = std::vector<std::int64_t>; // all that a schedule depends on

struct CacheKeyHash {
  std::size_t operator()(const CacheKey& key) const {
    std::uint64_t hash = 14695981039346656037u; // FNV-1a (Fowler, Noll and Vo), on whole numbers
    for (std::int64_t number : key)
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 1099511628211u, hash ^= hash >> 29;
    return static_cast<std::size_t>(hash);
  }
};

// The memory of a schedule, in units of that of a step: without steps it has some, too.
std::size_t weight_of(const Schedule& schedule) {
  return schedule.steps.size() + 16 + 2 * static_cast<std::size_t>(schedule.ranks());
}

class ScheduleCache {
public:
  // The schedule of a key. If there is none, `build` returns it. The lock is held meanwhile: other ranks
  // would otherwise build it, too.
  template <class F> std::shared_ptr<const PreparedSchedule> find(const CacheKey& key, const F& build) {
    const std::lock_guard lock(mutex_);
    if (const auto known = places_.find(key); known != places_.end()) {
      entries_.splice(entries_.begin(), entries_, known->second);
      return known->second->schedule;
    }
    std::list<Entry> added;
    added.push_back({key, std::make_shared<const PreparedSchedule>(build())});
    const auto schedule = added.front().schedule;
    places_.emplace(key, added.begin());
    entries_.splice(entries_.begin(), added);
    steps_ += schedule->steps.size(), weight_ += weight_of(*schedule);
    while (weight_ > most_steps && entries_.size() > 1) {
      const Schedule& oldest = *entries_.back().schedule;
      steps_ -= oldest.steps.size(), weight_ -= weight_of(oldest);
      places_.erase(entries_.back().key);
      entries_.pop_back();
    }
    return schedule;
  }
  std::size_t steps() {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

private:
  struct Entry {
    CacheKey key;
    std::shared_ptr<const PreparedSchedule> schedule;
  };
  std::mutex mutex_;
  std::list<Entry> entries_; // the one that was used last comes first
  std::unordered_map<CacheKey, std::list<Entry>::iterator, CacheKeyHash> places_;
  std::size_t steps_ = 0, weight_ = 0; // of all entries
};

ScheduleCache& cache() {
  static ScheduleCache& instance =
      *new ScheduleCache; // is never destroyed: ranks may run until the process ends
  return instance;
}

} // namespace

std::shared_ptr<const PreparedSchedule> cached_schedule(ScheduleFunction build, const Shards& shards,
                                                        RowBytes bytes, ScheduleOptions options) {
  thread_local CacheKey key; // keeps its memory
  key = {static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(build)),
         options.computes,
         options.uses_sums,
         bytes.shard,
         bytes.partial,
         bytes.sum,
         shards.ranks()};
  for (const std::vector<std::int64_t>* numbers : {&shards.begins(), &shards.cuts()})
    key.insert(key.end(), numbers->begin(), numbers->end());
  return cache().find(key, [&] { return build(shards, bytes, options); });
}

std::shared_ptr<const PreparedSchedule> cached_all_to_all(int ranks,
                                                          const std::vector<std::int64_t>& bytes_of) {
  thread_local CacheKey key;
  key = {0, ranks};
  key.insert(key.end(), bytes_of.begin(), bytes_of.end());
  return cache().find(key, [&] { return direct_all_to_all(ranks, bytes_of); });
}

std::size_t cached_steps() { return cache().steps(); }

} // namespace kiln::collectives
