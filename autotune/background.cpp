// The thread that searches while the program works.
#include <kiln/autotune/background.h>

#include <kiln/autotune/of_process.h>
#include <kiln/autotune/records/key.h>
#include <kiln/jit/runtime/log.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_set>

namespace kiln::tune {

namespace {

class Background {
public:
  ~Background() {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      queue_.clear();
      changed_.notify_all();
      // More than once, because a search may not have come to its first process yet.
      constexpr std::chrono::milliseconds between(50);
      do {
        if (busy_) interrupt_tuning();
      } while (!changed_.wait_for(lock, between, [this] { return !busy_; }));
    }
    if (thread_.joinable()) thread_.join();
  }

  void add(Task task, TuneOptions options, std::function<void(const Config&)> found) {
    const cache::Key id = make_key(*task.canonical(), task.space, task.recorded_problem(), task.device).id();
    const std::lock_guard lock(mutex_);
    if (stopping_ || !seen_.insert(id).second) return;
    queue_.push_back({std::move(task), std::move(options), std::move(found)});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }

private:
  struct Job {
    Task task;
    TuneOptions options;
    std::function<void(const Config&)> found;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      Job job = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      search(job);
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  void search(Job& job) {
    job.task.live = false;
    if (job.options.trials == 0) job.options.trials = 32;
    if (job.options.jobs == 0) job.options.jobs = 1;
    job.options.progress = [this](const SearchResult&) { return !stopping(); };
    try {
      const Tuning tuning = tune(job.task, job.options);
      const Measurement* before = tuning.analytic ? tuning.of(*tuning.analytic) : nullptr;
      const bool better =
          tuning.found() && (!before || !before->ok() || tuning.search.best_result.high < before->low ||
                             *tuning.analytic == *tuning.search.best);
      if (better && !stopping()) job.found(tuning.config());
    } catch (const std::exception& e) {
      log_warning_once(std::string("tuning in the background: ") + e.what());
    }
  }

  std::mutex mutex_; // guards what follows
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::unordered_set<cache::Key> seen_;
  bool stopping_ = false, busy_ = false;
  std::thread thread_;
};

Background& background() {
  static OfProcess<Background> background;
  return background.get();
}

} // namespace

void search_in_background(Task task, TuneOptions options, std::function<void(const Config&)> found) {
  background().add(std::move(task), std::move(options), std::move(found));
}
void finish_background() { background().finish(); }

} // namespace kiln::tune
