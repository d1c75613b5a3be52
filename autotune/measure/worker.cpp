// Implements the worker's message loop, its resource limits, and its end when the tuner is gone.
#include <kiln/autotune/measure/worker.h>

#include <kiln/autotune/measure/host_functions.h>
#include <kiln/autotune/measure/supervisor.h>
#include <kiln/autotune/measure/trial_runner.h>
#include <kiln/autotune/measure/verify.h>
#include <kiln/autotune/measure/worker_process.h>
#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/base/version.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

constexpr double answer_seconds = 60;

// --- The end of the tuner ----------------------------------------------------------------------------------

// Removes only folders that a tuner created: see WorkFolder.
void remove_folder(const std::filesystem::path& folder) {
  if (!folder.filename().string().starts_with("kiln-tune-")) return;
  std::error_code ignored;
  for (int i = 0; i < 3 && std::filesystem::exists(folder, ignored); ++i) { // others may still write
    std::filesystem::remove_all(folder, ignored);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

[[noreturn]] void end_without_tuner(const std::filesystem::path& folder) {
  remove_folder(folder);
  kill(0, SIGKILL); // the process group, which includes all child processes
  _exit(1);
}

// Runs on its own thread, since the others may hang in a kernel.
void watch(int socket, const std::filesystem::path& folder) {
  for (;;) {
    pollfd closed{socket, POLLRDHUP, 0};
    if (poll(&closed, 1, -1) > 0 && closed.revents) end_without_tuner(folder);
  }
}

// --- Limits ------------------------------------------------------------------------------------------------

std::uint64_t address_space() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t pages = 0;
  in >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void limit(int resource, std::uint64_t most) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(most, now.rlim_max);
  setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

// Limits what a candidate may use. The tuner's deadline comes first; these limits apply if the tuner cannot
// enforce it.
void limit_trial(const Situation& situation, double seconds) {
  constexpr std::uint64_t room = std::uint64_t{4} << 30;
  const bool cuda = situation.device.kind() == DeviceKind::Cuda; // the CUDA driver reserves address space
  if (!cuda && !sanitized) limit(RLIMIT_AS, address_space() + room);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto threads = static_cast<double>(std::max(1, Device::cpu().properties().num_threads));
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 10 +
                        static_cast<std::uint64_t>(4 * seconds * threads));
}

// Keeps the launching thread on its CPU; the pool's other threads are already pinned.
void pin_here() {
  if (thread_budget().limited_by_quota) return;
  const int cpu = sched_getcpu();
  if (cpu < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

// --- The loop ----------------------------------------------------------------------------------------------

class Worker {
public:
  Worker(int socket, std::string folder) : socket_(socket), folder_(std::move(folder)) {}

  void serve() {
    send({{"hello", version()}, {"code", code_generation_version}, {"llvm", llvm_version()}});
    while (auto request = receive_message(socket_))
      send(answer(*request));
  }

private:
  void send(const Message& message) {
    if (!send_message(socket_, message, answer_seconds)) std::exit(1);
  }

  Message answer(const Message& request) {
    try {
      const auto what = request.at("do").get<std::string>();
      if (what == "setup") return set_up(request);
      limit_trial(situation_, request.value("seconds_allowed", 600.0));
      if (what == "compile")
        return on_candidate(request, [&](const LoadedCandidate& c) { return compile(c, situation_); });
      if (what == "run")
        return on_candidate(request, [&](const LoadedCandidate& c) {
          return runner_->run(c, request.at("best"), [&] { send({{"stage", 0}}); });
        });
      if (what == "confirm") return confirm(request);
      if (what == "verify") return verify_winner(request);
      if (what == "interpret")
        return {{"checked", interpret_check(load_candidate(request.at("candidate"), situation_), situation_,
                                            request.at("seconds"))}};
      return {{"error", "a worker cannot \"" + what + "\""}};
    } catch (const std::bad_alloc&) {
      return {{"error", "out of memory"}};
    } catch (const std::exception& e) {
      return {{"error", e.what()}};
    }
  }

  template <class F> Message on_candidate(const Message& request, const F& work) {
    try {
      return to_message(work(load_candidate(request.at("candidate"), situation_)));
    } catch (...) { // invalid IR or config
      return to_message(failure(Status::compile_error));
    }
  }

  Message set_up(const Message& request) {
    situation_ = {};
    situation_.device = Device::parse(request.at("device").get<std::string>());
    for (const Message& argument : request.at("arguments"))
      situation_.arguments.push_back(argument_from(argument));
    situation_.seed = request.at("seed");
    situation_.tolerance = request.at("tolerance");
    for (const Message& check : request.at("outputs"))
      situation_.outputs.push_back(output_check_from(check));
    ask_for_functions(situation_, request, folder_,
                      [this](const Message& question) { return ask(question); });
    const Message& timing = request.at("timing");
    situation_.timing = {.least_seconds = timing.at("least"),
                         .most_seconds = timing.at("most"),
                         .drop = timing.at("drop"),
                         .cold = timing.at("cold"),
                         .screening_seconds = timing.at("screening")};
    if (request.at("role") != "run") return {{"ready", true}};
    if (request.value("fault", "") == "device") throw TargetError("an injected loss of the device");
    std::optional<LoadedCandidate> oracle;
    if (const auto given = request.find("oracle"); given != request.end())
      oracle = load_candidate(*given, situation_);
    if (oracle)
      situation_.right = "kernel \"" + oracle->kernel->recorded().name + "\" with {" +
                         oracle->config.to_string() + "} of TunedOptions::reference";
    else if (situation_.host_reference)
      situation_.right = "the function of TunedOptions::reference";
    runner_ = std::make_unique<TrialRunner>(
        situation_, load_candidate(request.at("reference"), situation_), std::move(oracle),
        request.at("seconds"), [&](const std::string& what) { send({{"stage", 0}, {"running", what}}); });
    if (situation_.device.is_cpu()) pin_here();
    return to_message(runner_->reference());
  }

  Message confirm(const Message& request) {
    std::vector<LoadedCandidate> candidates;
    for (const Message& c : request.at("candidates"))
      candidates.push_back(load_candidate(c, situation_));
    Message results = Message::array();
    auto stage = [&](std::size_t number) { send({{"stage", number}}); };
    for (const Measurement& m : runner_->confirm(candidates, request.at("seconds"), stage))
      results.push_back(to_message(m));
    return {{"results", std::move(results)}};
  }

  Message verify_winner(const Message& request) {
    const auto twist = parse_twist(request.at("twist").get<std::string>());
    if (!twist) return {{"skipped", "unknown variation of the inputs"}};
    const LoadedCandidate candidate = load_candidate(request.at("candidate"), situation_);
    const Verification v = verify(candidate, runner_->right(), runner_->situation(), *twist,
                                  request.value("seconds", 1e9), [&] { send({{"stage", 0}}); });
    return v.skipped.empty() ? to_message(v.result) : Message{{"skipped", v.skipped}};
  }

  Message ask(const Message& question) {
    send(question);
    auto reply = receive_message(socket_);
    if (!reply) std::exit(1); // the tuner is gone
    return *std::move(reply);
  }

  int socket_;
  std::string folder_;
  Situation situation_;
  std::unique_ptr<TrialRunner> runner_;
};

} // namespace

int run_worker(const char* folder, int tuner) {
  continue_supervised(tuner);
  limit(RLIMIT_CORE, 0);
  std::thread(watch, worker_socket, std::filesystem::path(folder)).detach();
  Worker(worker_socket, folder).serve();
  end_without_tuner(folder);
}

} // namespace kiln::tune
