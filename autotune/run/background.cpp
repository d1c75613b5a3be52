// Implements the background thread of mode `online`, and the comparison of winners with the config in use.
#include <kiln/autotune/run/background.h>

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/per_process.h>
#include <kiln/autotune/records/bucket.h>
#include <kiln/autotune/records/key.h>
#include <kiln/autotune/run/task_contents.h>
#include <kiln/autotune/run/task_workload.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/static_objects.h>
#include <kiln/jit/runtime/event.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

namespace kiln::tune {

namespace {

void stop_at_exit();

struct Job {
  Task task;
  Config present; // the config that the program uses
  TuneOptions options;
  std::function<void(const Config&)> found;
  std::optional<Event> copied = {}; // done when the task's contents have been copied
};

class Background {
public:
  ~Background() { stop(); }

  // Interrupts the running search and waits for its end.
  void stop() {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      report_left_out();
      drop_queue();
      changed_.notify_all();
      // Interrupt repeatedly, because a search may not have started its first process yet.
      constexpr std::chrono::milliseconds between(50);
      do {
        if (comparing_) comparing_->interrupt();
        if (busy_) interrupt_tuning();
      } while (!changed_.wait_for(lock, between, [this] { return !busy_; }));
    }
    if (thread_.joinable()) thread_.join();
  }

  bool add(Job job, Stream* stream) {
    const cache::Key id = bucket_of(job.task);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || searched_.contains(id)) return true;
      if (queue_.size() + preparing_ >= most_queued || searched_.size() >= most_searched) {
        ++left_out_;
        has_room_ = false;
        return false;
      }
      searched_.insert(id);
      ++preparing_;
    }
    if (stream) copy_integers(job, *stream);
    const std::lock_guard lock(mutex_);
    --preparing_;
    queue_.push_back(std::move(job));
    if (stopping_) drop_queue();
    if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
    // At exit, static objects are destroyed in reverse order of construction. The thread must have ended
    // before the objects that the task was made from, such as kernels that are static objects of functions.
    stop_at_exit();
    return true;
  }

  bool has_room() const { return has_room_.load(std::memory_order_relaxed); }

  BackgroundCounts counts() {
    const std::lock_guard lock(mutex_);
    return {queue_.size(), searched_.size(), left_out_};
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && preparing_ == 0 && !busy_; });
  }

private:
  // Returns the key of the task's bucket: problems of similar sizes get the config of one of them.
  static cache::Key bucket_of(const Task& task) {
    return task.key_of(Bucketing::hybrid().apply(task.recorded_problem())).id();
  }

  static void copy_integers(Job& job, Stream& stream) {
    try {
      job.task.contents = copy_contents(job.task, stream, Copied::integers, most_copied_online).of;
      job.copied.emplace();
      job.copied->record(stream);
    } catch (const Error& e) { // the search will report this, unless it can do without
      log_debug(std::string("tuning in the background: contents are not copied: ") + e.what());
    }
  }

  // Copies into the contents of a dropped search may still be queued on a stream, so their memory must stay.
  void drop_queue() {
    for (Job& job : queue_)
      if (job.copied && !job.copied->query()) keep_forever(std::move(job));
    queue_.clear();
  }
  static void keep_forever(Job job) {
    static auto& kept = *new std::vector<Job>;
    kept.push_back(std::move(job));
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      Job job = std::move(queue_.front());
      queue_.pop_front();
      has_room_ = searched_.size() < most_searched;
      busy_ = true;
      lock.unlock();
      if (contents_are_there(job)) search(job);
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  // Waits for the stream that copies the contents. Returns false if the process ends before.
  bool contents_are_there(Job& job) {
    constexpr std::chrono::milliseconds between(1);
    while (job.copied && !job.copied->query()) {
      if (stopping()) {
        keep_forever(std::move(job));
        return false;
      }
      std::this_thread::sleep_for(between);
    }
    return true;
  }

  void report_left_out() {
    if (left_out_ == 0) return;
    log_warning(
        "tuning in the background left out " + std::to_string(left_out_) +
        " requests for further problems: at most " + std::to_string(most_queued) +
        " searches wait at a time, and at most " + std::to_string(most_searched) +
        " buckets of sizes are searched; " + std::to_string(queue_.size()) +
        " searches were still waiting. Tune the important sizes beforehand with `kiln tune` or tune()");
    left_out_ = 0;
  }

  void search(Job& job) {
    if (job.options.trials == 0) job.options.trials = 32;
    if (job.options.jobs == 0) job.options.jobs = 1;
    job.options.progress = [this, theirs = job.options.progress](const SearchResult& so_far) {
      return !stopping() && (!theirs || theirs(so_far));
    };
    try {
      const Tuning tuning = tune(job.task, job.options);
      if (tuning.found() && is_better(tuning, job) && !stopping()) job.found(tuning.config());
    } catch (const std::exception& e) {
      log_warning_once(std::string("tuning in the background: ") + e.what());
    }
  }

  // Returns whether the winner is the program's present config or was confirmed to be faster than that.
  bool is_better(const Tuning& tuning, const Job& job) {
    const Point& best = *tuning.search.best;
    const std::optional<Point> present = tuning.space->point(job.present);
    if (present == best) return true;
    const std::optional<Measurement> of_best = confirmed(tuning.search, best);
    if (!of_best) return false;                                     // the search was interrupted
    if (!present || !tuning.space->contains(*present)) return true; // the present config cannot be timed
    if (const auto of_present = confirmed(tuning.search, *present))
      return !of_present->ok() || of_best->high < of_present->low;
    const std::vector<Measurement> both = by_turns(tuning, job, {*present, best});
    return both.size() == 2 && both[1].ok() && (!both[0].ok() || both[1].high < both[0].low);
  }

  static std::optional<Measurement> confirmed(const SearchResult& result, const Point& point) {
    for (std::size_t i = 0; i < result.finalists.size() && i < result.confirmed.size(); ++i)
      if (result.finalists[i] == point) return result.confirmed[i];
    return std::nullopt;
  }

  // Times configs that the search did not compare with each other. Returns nothing if it is interrupted.
  std::vector<Measurement> by_turns(const Tuning& tuning, const Job& job, const std::vector<Point>& points) {
    MeasureOptions options;
    options.jobs = job.options.jobs;
    options.cold_cache = job.options.cold;
    options.seed = job.options.seed;
    LiveMeasurer measurer(workload_of(*tuning.task), *tuning.space, tuning.space->config(*tuning.fallback),
                          options);
    const auto enter = [this](LiveMeasurer* comparing) {
      const std::lock_guard lock(mutex_);
      comparing_ = comparing;
      return !stopping_;
    };
    struct Leave {
      decltype(enter)& entered;
      ~Leave() { entered(nullptr); }
    } leave{enter};
    return enter(&measurer) ? measurer.confirm(points) : std::vector<Measurement>();
  }

  std::mutex mutex_; // guards the members below
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::size_t preparing_ = 0;               // jobs that are about to be queued
  std::unordered_set<cache::Key> searched_; // buckets that were queued so far
  std::uint64_t left_out_ = 0;
  std::atomic<bool> has_room_{true};
  bool stopping_ = false, busy_ = false;
  LiveMeasurer* comparing_ = nullptr; // the measurer that compares the winner with the present config
  std::thread thread_;
};

Background& background() {
  static OfProcess<Background> background;
  return background.get();
}

void stop_at_exit() {
  call_at_exit([] { background().stop(); });
}

} // namespace

bool search_in_background(Task task, Config present, TuneOptions options,
                          std::function<void(const Config&)> found, Stream* stream) {
  return background().add({std::move(task), std::move(present), std::move(options), std::move(found)},
                          stream);
}
bool background_has_room() { return background().has_room(); }
BackgroundCounts background_counts() { return background().counts(); }
void finish_background() { background().finish(); }

} // namespace kiln::tune
