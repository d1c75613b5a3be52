// Starts a tuner's processes and exchanges messages with them.
#include <kiln/autotune/measure/crew.h>

#include <kiln/autotune/measure/find_command.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/base/version.h>

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace kiln::tune {

std::string Answer::text(const char* name, const char* otherwise) const {
  const auto at = message.is_object() ? message.find(name) : message.end();
  return at != message.end() && at->is_string() ? at->get<std::string>() : otherwise;
}

Crew::Crew(int threads, GivenContents given)
    : threads_(threads), given_(std::move(given)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Crew::~Crew() {
  if (wake_ >= 0) close(wake_);
}

void Crew::open() {
  command_ = find_command();
  if (!folder_) folder_.emplace();
}

void Crew::interrupt() noexcept {
  const int error = errno;
  interrupted_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof one);
  errno = error;
}

void Crew::allow(double seconds) { until_ = in(seconds); }

std::unique_ptr<WorkerProcess> Crew::start(Role role) {
  std::vector<std::string> environment{"KILN_CACHE_DIR=" + folder_->path() + "/kernels",
                                       "KILN_CACHE_LIMIT=2G",
                                       "KILN_COMPILE_POLICY=allow",
                                       "KILN_KEEP=",
                                       "KILN_LOG=error",
                                       "KILN_CPU=" + kiln::options().cpu};
  if (role == Role::compile)
    environment.push_back("KILN_NUM_THREADS=1");
  else if (threads_ > 0)
    environment.push_back("KILN_NUM_THREADS=" + std::to_string(threads_));
  std::vector<int> descriptors;
  for (const auto& bytes : given_)
    descriptors.push_back(bytes->descriptor());
  auto process = std::make_unique<WorkerProcess>(command_, folder_->path(), environment, descriptors);
  ++totals.processes;
  return process;
}

bool Crew::wait(const std::vector<WorkerProcess*>& processes, Clock::time_point deadline) const {
  std::vector<pollfd> watched{{wake_, POLLIN, 0}};
  for (const WorkerProcess* p : processes) {
    watched.push_back({p->socket(), POLLIN, 0});
    watched.push_back({p->errors(), POLLIN, 0});
  }
  const auto until = std::min(deadline, until_) - Clock::now();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until).count();
  if (left < 0 || stopped()) return false;
  poll(watched.data(), watched.size(), static_cast<int>(std::min<long>(left + 1, 1000)));
  return true;
}

Answer Crew::ended(WorkerProcess& process) {
  ++totals.crashed;
  Answer answer;
  answer.kind = Answer::Kind::ended;
  answer.error = process.ending();
  answer.signal = process.signal();
  return answer;
}

Answer Crew::await(WorkerProcess& process, double seconds) {
  const Clock::time_point deadline = in(seconds);
  for (;;) {
    const bool alive = process.pump();
    if (auto message = process.next()) {
      if (!message->contains("ask") || !answer_) return {Answer::Kind::message, std::move(*message), {}, 0};
      process.send(answer_(*message));
      continue;
    }
    if (!alive) return ended(process);
    if (stopped()) return {Answer::Kind::interrupted, {}, "interrupted", 0};
    if (!wait({&process}, deadline) && !stopped()) return {Answer::Kind::late, {}, {}, 0};
  }
}

Answer Crew::request(WorkerProcess& process, const Message& message, double seconds) {
  if (!process.send(message)) return {Answer::Kind::ended, {}, "it does not accept messages", 0};
  return await(process, seconds);
}

void Crew::check_hello(WorkerProcess& process) {
  const Answer answer = await(process, hello_seconds);
  if (answer.kind == Answer::Kind::interrupted) return;
  if (answer.kind != Answer::Kind::message)
    throw UserError(command_ + " tune-worker does not start: " +
                    (answer.error.empty() ? "it sends no message" : answer.error) +
                    "; set KILN_COMMAND to the kiln command of this build");
  const Message& hello = answer.message;
  const bool same = hello.value("hello", "") == version() &&
                    hello.value("code", 0) == code_generation_version &&
                    hello.value("llvm", "") == llvm_version();
  if (!same)
    throw UserError(command_ + " belongs to another build of Kiln (" + hello.value("hello", "?") +
                    "; this one is " + version() + "); set KILN_COMMAND to the kiln command of this build");
}

void Crew::kill(std::unique_ptr<WorkerProcess>& process) {
  if (process) ++totals.killed;
  process.reset();
}

} // namespace kiln::tune
