// Drives the processes that compile and run candidates.
#include <kiln/autotune/measure/live_measurer.h>

#include <kiln/autotune/measure/find_command.h>
#include <kiln/autotune/measure/worker_process.h>
#include <kiln/autotune/random.h>
#include <kiln/jit/runtime/options.h>
#include <kiln/jit/version.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

constexpr int most_jobs = 16;
constexpr double hello_seconds = 60; // to be loaded, on a machine that is busy
constexpr double interpreter_seconds = 30;
constexpr double least_compile_limit = 10, least_run_limit = 5;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
Clock::time_point in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Measurement failed(Status status, std::string error) {
  Measurement m;
  m.status = status;
  m.error = std::move(error);
  return m;
}

std::string one_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// A folder of this tuner's own, for the kernels that its processes share.
class PrivateFolder {
public:
  PrivateFolder() {
    const char* given = std::getenv("TMPDIR");
    std::string path = std::string(given && *given ? given : "/tmp") + "/kiln-tune-XXXXXX";
    if (!mkdtemp(path.data()))
      throw TargetError("the tuner's folder " + path + " cannot be made: " + std::strerror(errno) +
                        "; set TMPDIR to a folder with room");
    path_ = path;
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

} // namespace

class LiveMeasurer::Impl {
public:
  Impl(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options)
      : workload_(std::move(workload)), space_(space), fallback_(fallback), options_(std::move(options)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (options_.jobs <= 0) options_.jobs = std::min(most_jobs, Device::cpu().properties().num_threads);
  }
  ~Impl() {
    runner_.reset();
    compilers_.clear(); // before their folder goes
    if (wake_ >= 0) close(wake_);
  }

  void start();
  std::vector<Measurement> measure(std::span<const Point> points);
  std::vector<Measurement> confirm(std::span<const Point> points);

  void interrupt() noexcept {
    const int error = errno;
    interrupted_.store(true);
    const std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof one);
    errno = error;
  }

  const Measurement& reference() const { return reference_; }
  const std::string& checked() const { return checked_; }
  bool interrupted() const noexcept { return interrupted_.load(); }
  bool lost() const { return lost_; }
  const Totals& totals() const { return totals_; }

private:
  struct Candidate {
    Message message; // ir, config, grid, fault
    Measurement result;
    bool compiled = false; // or failed
    bool done = false;     // nothing more is to be measured
  };
  // What came of a request.
  struct Answer {
    enum class Kind : std::uint8_t { message, ended, late, interrupted } kind = Kind::message;
    Message message;
    std::string error; // of a process that ended
    int signal = 0;
  };
  struct Compiler {
    std::unique_ptr<WorkerProcess> process;
    Candidate* job = nullptr;
    bool setting_up = false;
    Clock::time_point begin, deadline;
  };

  // --- Processes ---
  std::unique_ptr<WorkerProcess> start_process(bool runs);
  void check_hello(WorkerProcess& process);
  Message setup_message(bool runs) const;
  bool wait(const std::vector<WorkerProcess*>& processes, Clock::time_point deadline) const;
  Answer await(WorkerProcess& process, double seconds);
  Answer ended(WorkerProcess& process);
  void kill(std::unique_ptr<WorkerProcess>& process) {
    if (process) ++totals_.killed;
    process.reset();
  }
  Answer set_up_runner(double seconds);
  bool runner_ready();
  void lose(const std::string& error);
  void compare_with_interpreter();

  // --- Candidates ---
  Candidate make_candidate(const Config& config, bool may_fail) const;
  std::string draw_fault();
  Measurement of_end(const Answer& answer, bool compiling) const;
  // Calls `meanwhile` between any two things that it waits for.
  void compile_all(std::vector<Candidate>& candidates, const std::function<void()>& meanwhile);
  void start_compiling(Compiler& compiler, Candidate& candidate);
  void finish_compiling(Compiler& compiler, Measurement result);
  void run(Candidate& candidate);
  void note(const Measurement& m);
  double compile_limit() const;
  double run_limit() const;

  Workload workload_;
  BoundSpace& space_;
  Config fallback_;
  MeasureOptions options_;
  int wake_ = -1;
  std::atomic<bool> interrupted_{false};

  std::string command_;
  std::unique_ptr<PrivateFolder> folder_;
  bool started_ = false, lost_ = false;
  std::string lost_error_;
  std::unique_ptr<WorkerProcess> runner_;
  std::vector<Compiler> compilers_;
  Message reference_message_;
  Measurement reference_;
  std::string checked_;
  double setup_seconds_ = 0; // of the process that runs, the reference's launches included
  double best_relative_ = 0, best_seconds_ = 0;
  std::vector<double> compile_times_;
  std::uint64_t trials_ = 0;
  bool device_fault_ = false;
  Totals totals_;
};

// --- Processes ---------------------------------------------------------------------------------------------

std::unique_ptr<WorkerProcess> LiveMeasurer::Impl::start_process(bool runs) {
  std::vector<std::string> environment{"KILN_CACHE_DIR=" + folder_->path() + "/kernels",
                                       "KILN_CACHE_LIMIT=2G",
                                       "KILN_COMPILE_POLICY=allow",
                                       "KILN_KEEP=",
                                       "KILN_LOG=error",
                                       "KILN_CPU=" + kiln::options().cpu};
  if (!runs)
    environment.push_back("KILN_NUM_THREADS=1");
  else if (options_.threads > 0)
    environment.push_back("KILN_NUM_THREADS=" + std::to_string(options_.threads));
  auto process = std::make_unique<WorkerProcess>(command_, folder_->path(), environment);
  ++totals_.processes;
  return process;
}

// Waits for something from any of them. False if there is nothing to wait for any more.
bool LiveMeasurer::Impl::wait(const std::vector<WorkerProcess*>& processes,
                              Clock::time_point deadline) const {
  std::vector<pollfd> watched{{wake_, POLLIN, 0}};
  for (const WorkerProcess* p : processes) {
    watched.push_back({p->socket(), POLLIN, 0});
    watched.push_back({p->errors(), POLLIN, 0});
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left < 0 || interrupted_) return false;
  poll(watched.data(), watched.size(), static_cast<int>(std::min<long>(left + 1, 1000)));
  return true;
}

LiveMeasurer::Impl::Answer LiveMeasurer::Impl::ended(WorkerProcess& process) {
  ++totals_.crashed;
  Answer answer;
  answer.kind = Answer::Kind::ended;
  answer.error = process.ending();
  answer.signal = process.signal();
  return answer;
}

LiveMeasurer::Impl::Answer LiveMeasurer::Impl::await(WorkerProcess& process, double seconds) {
  const Clock::time_point deadline = in(seconds);
  for (;;) {
    const bool alive = process.pump();
    if (auto message = process.next()) return {Answer::Kind::message, std::move(*message), {}, 0};
    if (!alive) return ended(process);
    if (interrupted_) return {Answer::Kind::interrupted, {}, "interrupted", 0};
    if (!wait({&process}, deadline) && !interrupted_) return {Answer::Kind::late, {}, {}, 0};
  }
}

void LiveMeasurer::Impl::check_hello(WorkerProcess& process) {
  Answer answer = await(process, hello_seconds);
  if (answer.kind == Answer::Kind::interrupted) return;
  if (answer.kind != Answer::Kind::message)
    throw UserError(command_ + " tune-worker does not start: " +
                    (answer.error.empty() ? "it says nothing" : answer.error) +
                    "; set KILN_COMMAND to the kiln command of this build");
  const Message& hello = answer.message;
  const bool same = hello.value("hello", "") == version() &&
                    hello.value("code", 0) == code_generation_version &&
                    hello.value("llvm", "") == llvm_version();
  if (!same)
    throw UserError(command_ + " is the command of another build of Kiln (" + hello.value("hello", "?") +
                    ", and this is " + version() + "); set KILN_COMMAND to this one's");
}

Message LiveMeasurer::Impl::setup_message(bool runs) const {
  Message arguments = Message::array();
  for (const Argument& a : workload_.arguments)
    arguments.push_back(to_message(a));
  Message message{{"do", "setup"},
                  {"role", runs ? "run" : "compile"},
                  {"device", to_string(workload_.device)},
                  {"arguments", std::move(arguments)},
                  {"seed", options_.seed},
                  {"tolerance", options_.tolerance},
                  {"timing",
                   {{"least", options_.least_seconds},
                    {"most", options_.most_seconds},
                    {"drop", options_.drop},
                    {"cold", options_.cold_cache}}}};
  if (runs) message["reference"] = reference_message_;
  if (device_fault_) message["fault"] = "device";
  return message;
}

LiveMeasurer::Impl::Answer LiveMeasurer::Impl::set_up_runner(double seconds) {
  const auto begin = Clock::now();
  runner_ = start_process(true);
  check_hello(*runner_);
  Answer answer{Answer::Kind::ended, {}, "it takes no messages", 0};
  if (runner_->send(setup_message(true))) answer = await(*runner_, seconds);
  if (answer.kind == Answer::Kind::late) {
    kill(runner_);
    answer.error = "it did not end within " + std::to_string(std::lround(seconds)) + " s";
  } else if (answer.kind == Answer::Kind::message && answer.message.contains("error") &&
             !answer.message.contains("status")) {
    answer.error = answer.message.at("error");
  }
  if (!answer.error.empty()) runner_.reset();
  setup_seconds_ = seconds_since(begin);
  return answer;
}

void LiveMeasurer::Impl::start() {
  if (started_) return;
  command_ = find_command();
  if (!folder_) folder_ = std::make_unique<PrivateFolder>();
  reference_message_ = make_candidate(fallback_, false).message;
  constexpr int attempts = 3; // a process may be killed for no fault of its own
  std::string error;
  for (int i = 0; i < attempts; ++i) {
    Answer answer = set_up_runner(options_.first_limit);
    if (answer.kind == Answer::Kind::interrupted) return;
    if (answer.error.empty()) {
      reference_ = measurement_from(answer.message);
      best_relative_ = 1;
      best_seconds_ = reference_.seconds;
      compile_times_.push_back(reference_.compile_seconds);
      started_ = true;
      break;
    }
    error = answer.error;
    if (answer.kind == Answer::Kind::message) break; // it said what is wrong
  }
  if (!started_)
    throw UserError("the fallback config {" + fallback_.to_string() + "} cannot be measured on " +
                    to_string(workload_.device) + ": " + error);
  compilers_.resize(static_cast<std::size_t>(options_.jobs));
  if (options_.check_reference)
    compare_with_interpreter();
  else
    checked_ = "nothing: not asked for";
}

void LiveMeasurer::Impl::compare_with_interpreter() {
  std::unique_ptr<WorkerProcess> process = start_process(false);
  check_hello(*process);
  Answer answer{Answer::Kind::ended, {}, "it takes no messages", 0};
  if (process->send(setup_message(false)) && await(*process, hello_seconds).kind == Answer::Kind::message &&
      process->send({{"do", "interpret"}, {"candidate", reference_message_}}))
    answer = await(*process, interpreter_seconds);
  if (answer.kind == Answer::Kind::message && answer.message.contains("error"))
    throw UserError(answer.message.at("error").get<std::string>());
  if (answer.kind == Answer::Kind::message)
    checked_ = answer.message.at("checked");
  else
    checked_ = answer.kind == Answer::Kind::late ? "nothing: the interpreter took too long"
                                                 : "nothing: " + answer.error;
}

// Starts the process that runs if there is none. False if the device is gone, or on interruption.
bool LiveMeasurer::Impl::runner_ready() {
  if (lost_) return false;
  constexpr int attempts = 3;
  std::string error;
  for (int i = 0; !runner_ && i < attempts; ++i) {
    if (interrupted_ || lost_) return false;
    Answer answer = set_up_runner(compile_limit() + std::max(least_run_limit, 5 * setup_seconds_));
    if (answer.kind == Answer::Kind::interrupted) return false;
    error = answer.error;
  }
  if (runner_) return true;
  // The reference ran before; now it does not, in a fresh process.
  lose(error);
  return false;
}

void LiveMeasurer::Impl::lose(const std::string& error) {
  lost_ = true;
  lost_error_ = to_string(workload_.device) + " does not run the reference any more: " + one_line(error);
}

// --- Candidates --------------------------------------------------------------------------------------------

std::string LiveMeasurer::Impl::draw_fault() {
  const Faults& faults = options_.faults;
  if (faults.probability <= 0 || faults.kinds.empty()) return {};
  Random random(options_.seed * 0x9E3779B97F4A7C15u + ++trials_);
  random.bits();
  if (random.uniform() >= faults.probability) return {};
  return faults.kinds[random.below(faults.kinds.size())];
}

LiveMeasurer::Impl::Candidate LiveMeasurer::Impl::make_candidate(const Config& config, bool may_fail) const {
  Candidate c;
  try {
    c.message = {{"ir", workload_.ir(config)}, {"config", config.to_string()}};
    if (workload_.grid) {
      const Grid grid = workload_.grid(config);
      c.message["grid"] = {grid.x, grid.y, grid.z};
    }
  } catch (const Error& e) { // while it is recorded
    if (!may_fail) throw;
    c.result = failed(Status::refused, one_line(e.what()));
    c.compiled = c.done = true;
  }
  return c;
}

Measurement LiveMeasurer::Impl::of_end(const Answer& answer, bool compiling) const {
  if (answer.kind == Answer::Kind::late)
    return failed(compiling ? Status::compile_timeout : Status::timeout,
                  compiling ? "the compiler did not end in time" : "it did not end in time");
  auto tells_of_memory = [&] {
    for (const char* words : {"out of memory", "bad_alloc", "Cannot allocate memory", "bad alloc"})
      if (answer.error.find(words) != std::string::npos) return true;
    return answer.signal == SIGKILL; // not from here: the system's, when memory is short
  };
  if (tells_of_memory()) return failed(Status::out_of_memory, answer.error);
  if (answer.signal == SIGXCPU)
    return failed(compiling ? Status::compile_timeout : Status::timeout, answer.error);
  return failed(compiling ? Status::compile_error : Status::crash,
                (compiling ? "the compiler was " : "") + answer.error);
}

double LiveMeasurer::Impl::compile_limit() const {
  if (options_.compile_limit > 0) return options_.compile_limit;
  std::vector<double> times = compile_times_;
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 9 / 10);
  if (at == times.end()) return least_compile_limit;
  std::nth_element(times.begin(), at, times.end());
  // Side by side, each takes longer.
  const double sharing =
      std::max(1.0, static_cast<double>(options_.jobs) / std::max(1, Device::cpu().properties().num_threads));
  return std::max(least_compile_limit, 3 * sharing * *at);
}

// For two checked launches and the timing; the reference's own, with its larger costs, tells how long checks
// take, and 100 launches of the best are about what a candidate that is ten times slower needs.
double LiveMeasurer::Impl::run_limit() const {
  if (options_.run_limit > 0) return options_.run_limit;
  return least_run_limit + options_.most_seconds + 3 * (reference_.run_seconds + setup_seconds_) +
         100 * best_seconds_;
}

void LiveMeasurer::Impl::start_compiling(Compiler& compiler, Candidate& candidate) {
  compiler.job = &candidate;
  compiler.begin = Clock::now();
  const double limit = compile_limit();
  double loading = 0;
  bool sent = true;
  if (!compiler.process) {
    compiler.process = start_process(false);
    sent = compiler.process->send(setup_message(false));
    loading = hello_seconds;
  }
  sent = sent && compiler.process->send(
                     {{"do", "compile"}, {"candidate", candidate.message}, {"seconds_allowed", limit}});
  compiler.deadline = in(sent ? limit + loading : 0);
}

void LiveMeasurer::Impl::finish_compiling(Compiler& compiler, Measurement result) {
  const double seconds = seconds_since(compiler.begin);
  if (result.compile_seconds == 0) result.compile_seconds = seconds;
  totals_.compile_seconds += result.compile_seconds;
  if (result.ok()) compile_times_.push_back(result.compile_seconds);
  compiler.job->result = std::move(result);
  compiler.job->done = !compiler.job->result.ok();
  compiler.job->compiled = true;
  compiler.job = nullptr;
}

void LiveMeasurer::Impl::compile_all(std::vector<Candidate>& candidates,
                                     const std::function<void()>& meanwhile) {
  auto next = candidates.begin();
  for (;;) {
    std::vector<WorkerProcess*> busy;
    Clock::time_point deadline = in(3600);
    for (Compiler& c : compilers_) {
      while (!c.job && !lost_ && next != candidates.end()) {
        Candidate& candidate = *next++;
        if (!candidate.done) start_compiling(c, candidate);
      }
      if (!c.job) continue;
      busy.push_back(c.process.get());
      deadline = std::min(deadline, c.deadline);
    }
    if (busy.empty()) return;
    meanwhile();
    wait(busy, deadline);
    for (Compiler& c : compilers_) {
      if (!c.job) continue;
      if (interrupted_) {
        c.process.reset();
        c.job = nullptr;
        continue;
      }
      const bool alive = c.process->pump();
      while (auto message = c.process->next()) {
        if (message->contains("hello")) {
          c.setting_up = true;
        } else if (message->contains("ready")) { // now it begins
          c.setting_up = false;
          c.begin = Clock::now();
          c.deadline = in(compile_limit());
        } else if (c.setting_up) { // what worked in start() does not any more
          lose(message->value("error", "it cannot be opened"));
          finish_compiling(c, failed(Status::device_lost, lost_error_));
          c.process.reset();
          break;
        } else if (message->contains("status")) {
          finish_compiling(c, measurement_from(*message));
          break;
        } else {
          finish_compiling(c, failed(Status::compile_error, one_line(message->value("error", "nothing"))));
          break;
        }
      }
      if (!c.job) continue;
      if (!alive) {
        finish_compiling(c, of_end(ended(*c.process), true));
        c.process.reset();
      } else if (Clock::now() > c.deadline) {
        finish_compiling(c, of_end({Answer::Kind::late, {}, {}, 0}, true));
        kill(c.process);
      }
    }
    if (interrupted_) return;
  }
}

void LiveMeasurer::Impl::note(const Measurement& m) {
  if (!m.ok() || m.seconds <= 0) return;
  if (best_relative_ == 0 || m.relative < best_relative_) {
    best_relative_ = m.relative;
    best_seconds_ = m.seconds;
  }
}

void LiveMeasurer::Impl::run(Candidate& c) {
  const Measurement compiled = c.result;
  c.done = true;
  if (c.message.value("fault", "") == "device") device_fault_ = true;
  if (device_fault_) runner_.reset(); // as a driver that fails would
  if (!runner_ready()) {
    c.done = lost_; // else it was interrupted
    c.result = failed(Status::device_lost, lost_error_);
    return;
  }
  const auto begin = Clock::now();
  const double limit = run_limit();
  const Message request{{"do", "run"},
                        {"candidate", c.message},
                        {"best", best_relative_},
                        {"seconds_allowed", limit + compile_limit()}};
  Answer answer{Answer::Kind::ended, {}, "it takes no messages", 0};
  if (runner_->send(request)) answer = await(*runner_, compile_limit() + limit);
  while (answer.kind == Answer::Kind::message && answer.message.contains("stage"))
    answer = await(*runner_, limit);
  if (answer.kind == Answer::Kind::interrupted) {
    runner_.reset();
    c.done = false;
    return;
  }
  if (answer.kind == Answer::Kind::message)
    c.result = answer.message.contains("status")
                   ? measurement_from(answer.message)
                   : failed(Status::crash, one_line(answer.message.value("error", "no answer")));
  else
    c.result = of_end(answer, false);
  if (c.result.run_seconds == 0) c.result.run_seconds = seconds_since(begin);
  c.result.compile_seconds = compiled.compile_seconds;
  for (const auto& [name, value] : compiled.facts)
    c.result.facts.emplace(name, value);
  totals_.run_seconds += c.result.run_seconds;
  note(c.result);
  // What failed may have spoilt memory, or the device for this process.
  const Status s = c.result.status;
  if (answer.kind == Answer::Kind::late)
    kill(runner_);
  else if (s != Status::ok && s != Status::refused && s != Status::compile_error)
    runner_.reset();
}

std::vector<Measurement> LiveMeasurer::Impl::measure(std::span<const Point> points) {
  start();
  std::vector<Measurement> results;
  if (!started_) return results; // interrupted
  std::vector<Candidate> candidates;
  for (const Point& point : points) {
    candidates.push_back(make_candidate(space_.config(point), true));
    if (std::string fault = draw_fault(); !fault.empty()) candidates.back().message["fault"] = fault;
  }
  if (lost_) {
    results.assign(points.size(), failed(Status::device_lost, lost_error_));
    return results;
  }
  // On a GPU, what is compiled runs while others are being compiled. On the CPU they would disturb it.
  const bool overlap = workload_.device.kind() == DeviceKind::Cuda;
  auto first_waiting = candidates.begin();
  compile_all(candidates, [&] {
    while (first_waiting != candidates.end() && first_waiting->done)
      ++first_waiting;
    if (overlap && first_waiting != candidates.end() && first_waiting->compiled && !interrupted_)
      run(*first_waiting);
  });
  for (Candidate& c : candidates) {
    if (!c.done && !interrupted_) run(c);
    if (!c.done && lost_) {
      c.result = failed(Status::device_lost, lost_error_);
      c.done = true;
    }
    if (!c.done) break;
    results.push_back(c.result);
  }
  return results;
}

std::vector<Measurement> LiveMeasurer::Impl::confirm(std::span<const Point> points) {
  start();
  std::vector<Measurement> results(points.size());
  std::vector<Candidate> candidates;
  for (const Point& point : points)
    candidates.push_back(make_candidate(space_.config(point), true));
  std::vector<int> strikes(points.size(), 0);
  constexpr int most_strikes = 2; // a finalist has run before: it may fail once by chance
  for (int attempt = 0; attempt < most_strikes * static_cast<int>(points.size()) + 2; ++attempt) {
    std::vector<std::size_t> which;
    Message messages = Message::array();
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (candidates[i].done) {
        results[i] = candidates[i].result;
        continue;
      }
      Message message = candidates[i].message;
      if (std::string fault = draw_fault(); !fault.empty()) message["fault"] = fault;
      if (message.value("fault", "") == "device") device_fault_ = true;
      which.push_back(i);
      messages.push_back(std::move(message));
    }
    if (which.empty()) return results;
    if (device_fault_) runner_.reset();
    if (!runner_ready()) {
      if (!lost_) return {};
      for (std::size_t i : which)
        results[i] = failed(Status::device_lost, lost_error_);
      return results;
    }
    const double limit = compile_limit() + run_limit();
    const double timing = 2 * options_.confirm_seconds * static_cast<double>(which.size()) + limit;
    Answer answer{Answer::Kind::ended, {}, "it takes no messages", 0};
    std::size_t stage = 0;
    if (runner_->send({{"do", "confirm"},
                       {"candidates", std::move(messages)},
                       {"seconds", options_.confirm_seconds},
                       {"seconds_allowed", limit * static_cast<double>(which.size()) + timing}}))
      answer = await(*runner_, limit);
    while (answer.kind == Answer::Kind::message && answer.message.contains("stage")) {
      stage = answer.message.at("stage");
      answer = await(*runner_, stage < which.size() ? limit : timing);
    }
    if (answer.kind == Answer::Kind::interrupted) {
      runner_.reset();
      return {};
    }
    auto strike = [&](std::size_t i, const Measurement& m) {
      if (++strikes[i] < most_strikes) return;
      candidates[i].done = true;
      candidates[i].result = m;
    };
    if (answer.kind != Answer::Kind::message || !answer.message.contains("results")) {
      const Measurement m = answer.kind == Answer::Kind::message
                                ? failed(Status::crash, one_line(answer.message.value("error", "no answer")))
                                : of_end(answer, false);
      if (stage < which.size())
        strike(which[stage], m);
      else // while all were timed
        for (std::size_t i : which)
          strike(i, m);
      if (answer.kind == Answer::Kind::late)
        kill(runner_);
      else
        runner_.reset();
      continue;
    }
    const Message& told = answer.message.at("results");
    const Measurement last = measurement_from(told.back());
    if (!last.ok()) {
      strike(which[told.size() - 1], last);
      runner_.reset();
      continue;
    }
    for (std::size_t i = 0; i < which.size(); ++i) {
      results[which[i]] = measurement_from(told.at(i));
      totals_.run_seconds += results[which[i]].run_seconds;
      note(results[which[i]]);
    }
    return results;
  }
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!candidates[i].done) results[i] = failed(Status::crash, "it could not be confirmed");
  return results;
}

// --- The class ---------------------------------------------------------------------------------------------

LiveMeasurer::LiveMeasurer(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options)
    : impl_(std::make_unique<Impl>(std::move(workload), space, fallback, std::move(options))) {}
LiveMeasurer::~LiveMeasurer() = default;
void LiveMeasurer::start() { impl_->start(); }
const Measurement& LiveMeasurer::fallback() const { return impl_->reference(); }
const std::string& LiveMeasurer::checked() const { return impl_->checked(); }
std::vector<Measurement> LiveMeasurer::measure(std::span<const Point> points) {
  return impl_->measure(points);
}
std::vector<Measurement> LiveMeasurer::confirm(std::span<const Point> points) {
  return impl_->confirm(points);
}
void LiveMeasurer::interrupt() noexcept { impl_->interrupt(); }
bool LiveMeasurer::interrupted() const noexcept { return impl_->interrupted(); }
bool LiveMeasurer::device_lost() const { return impl_->lost(); }
LiveMeasurer::Totals LiveMeasurer::totals() const { return impl_->totals(); }

} // namespace kiln::tune
