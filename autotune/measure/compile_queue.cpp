// Distributes candidates to the compiler processes and handles their answers, crashes and time-outs.
#include <kiln/autotune/measure/compile_queue.h>

#include <kiln/autotune/measure/loaded_candidate.h>

#include <algorithm>
#include <csignal>

namespace kiln::tune {

namespace {
constexpr double least_limit = 10;
}

Measurement result_of_end(const Answer& answer, bool compiling) {
  if (answer.kind == Answer::Kind::late)
    return failed(compiling ? Status::compile_timeout : Status::timeout,
                  compiling ? "the compiler did not finish in time" : "it did not finish in time");
  auto is_memory_error = [&] {
    for (const char* words : {"out of memory", "bad_alloc", "Cannot allocate memory", "bad alloc"})
      if (answer.error.find(words) != std::string::npos) return true;
    return answer.signal == SIGKILL; // not sent by the tuner, so by the system's OOM killer
  };
  if (is_memory_error()) return failed(Status::out_of_memory, answer.error);
  if (answer.signal == SIGXCPU)
    return failed(compiling ? Status::compile_timeout : Status::timeout, answer.error);
  return failed(compiling ? Status::compile_error : Status::crash,
                (compiling ? "the compiler was " : "") + answer.error);
}

double CompileQueue::limit() const {
  if (limit_ > 0) return limit_;
  std::vector<double> times = times_;
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 9 / 10);
  if (at == times.end()) return least_limit;
  std::nth_element(times.begin(), at, times.end());
  // Compilers that run in parallel slow each other down.
  const double sharing = std::max(1.0, static_cast<double>(compilers_.size()) /
                                           std::max(1, Device::cpu().properties().num_threads));
  return std::max(least_limit, 3 * sharing * *at);
}

void CompileQueue::start(Compiler& compiler, PendingCandidate& candidate) {
  compiler.job = &candidate;
  compiler.begin = Clock::now();
  const double seconds = limit();
  double loading = 0;
  bool sent = true;
  if (!compiler.process) {
    compiler.process = crew_.start(Crew::Role::compile);
    sent = compiler.process->send(setup_);
    loading = hello_seconds;
  }
  sent = sent && compiler.process->send(
                     {{"do", "compile"}, {"candidate", candidate.message}, {"seconds_allowed", seconds}});
  compiler.deadline = in(sent ? seconds + loading : 0);
}

void CompileQueue::finish(Compiler& compiler, Measurement result) {
  if (result.compile_seconds == 0) result.compile_seconds = seconds_since(compiler.begin);
  crew_.totals.compile_seconds += result.compile_seconds;
  if (result.ok()) note(result.compile_seconds);
  compiler.job->result = std::move(result);
  compiler.job->done = !compiler.job->result.ok();
  compiler.job->compiled = true;
  compiler.job = nullptr;
}

void CompileQueue::take_messages(Compiler& c) {
  while (c.job) {
    auto message = c.process->next();
    if (!message) return;
    const Answer answer{Answer::Kind::message, *std::move(message), {}, 0};
    if (answer.message.contains("hello")) {
      c.setting_up = true;
    } else if (answer.message.contains("ready")) { // now it begins
      c.setting_up = false;
      c.begin = Clock::now();
      c.deadline = in(limit());
    } else if (c.setting_up) { // setting up worked for the reference, but no longer works
      lost_ = answer.text("error", "it cannot be opened");
      finish(c, failed(Status::device_lost, lost_));
      c.process.reset();
    } else if (answer.message.contains("status")) {
      finish(c, measurement_from(answer.message));
    } else {
      finish(c, failed(Status::compile_error, answer.text("error", "nothing")));
    }
  }
}

void CompileQueue::compile(std::vector<PendingCandidate>& candidates,
                           const std::function<void()>& meanwhile) {
  if (crew_.stopped()) return;
  auto next = candidates.begin();
  for (bool stopped = false; !stopped;) {
    std::vector<WorkerProcess*> busy;
    Clock::time_point deadline = in(3600);
    for (Compiler& c : compilers_) {
      while (!c.job && lost_.empty() && next != candidates.end()) {
        PendingCandidate& candidate = *next++;
        if (!candidate.done && !candidate.compiled) start(c, candidate);
      }
      if (!c.job) continue;
      busy.push_back(c.process.get());
      deadline = std::min(deadline, c.deadline);
    }
    if (busy.empty()) return;
    meanwhile();
    crew_.wait(busy, deadline);
    stopped = crew_.stopped(); // read once, so that all compilers see the same value
    for (Compiler& c : compilers_) {
      if (!c.job) continue;
      if (stopped) {
        if (!c.setting_up) crew_.totals.compile_seconds += seconds_since(c.begin);
        c.process.reset();
        c.job = nullptr;
        continue;
      }
      const bool alive = c.process->pump();
      take_messages(c);
      if (!c.job) continue;
      if (!alive) {
        finish(c, result_of_end(crew_.ended(*c.process), true));
        c.process.reset();
      } else if (Clock::now() > c.deadline) {
        finish(c, result_of_end({Answer::Kind::late, {}, {}, 0}, true));
        crew_.kill(c.process);
      }
    }
  }
}

} // namespace kiln::tune
