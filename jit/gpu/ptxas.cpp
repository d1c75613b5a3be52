// Finds ptxas, runs it with a time limit, and reads its output.
#include <kiln/jit/gpu/ptxas.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/child.h>
#include <kiln/jit/base/options.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <regex>
#include <spawn.h>
#include <string_view>
#include <system_error>
#include <unistd.h>

extern char** environ;

namespace kiln::gpu {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored; // PATH may name folders that cannot be read
  return !fs::is_directory(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string find_ptxas() {
  if (const auto& given = environment_options().ptxas) return is_program(*given) ? *given : "";
  const char* path = std::getenv("PATH");
  std::string folders = std::string(path ? path : "") + ":/usr/local/cuda/bin";
  for (std::size_t at = 0; at <= folders.size();) {
    std::size_t end = std::min(folders.find(':', at), folders.size());
    fs::path candidate = fs::path(folders.substr(at, end - at)) / "ptxas";
    if (end > at && is_program(candidate)) return candidate.string();
    at = end + 1;
  }
  return "";
}

std::vector<char> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "kiln-ptxas-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw TargetError("no temporary folder for ptxas can be created in " +
                        fs::temp_directory_path().string());
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// A pipe through which the shell below reports the exit code of ptxas.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw TargetError("no pipe can be created for " + ptxas_path());
    // The shell gets it as descriptor 3, which must not be one of this pipe's.
    const int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    if (moved < 0) throw TargetError("no pipe can be created for " + ptxas_path());
    close(ends[1]);
    ends[1] = moved;
  }
  ~Pipe() {
    close(ends[0]);
    close_writer();
  }
  void close_writer() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
};

// Waits until ptxas ends, and returns what the shell reports: its exit code in digits, or nothing if the
// shell was killed. If it takes too long, its process group, and with it all that it started, is killed, and
// a TargetError is thrown.
std::string wait_for(Child& shell, int report) {
  using namespace std::chrono;
  const int limit = options().ptxas_seconds;
  const auto deadline = steady_clock::now() + seconds(limit);
  std::string code;
  for (;;) {
    const auto left = duration_cast<milliseconds>(deadline - steady_clock::now()).count();
    pollfd ready{report, POLLIN, 0};
    if (left <= 0) {
      shell.kill_group();
      shell.wait();
      throw TargetError(ptxas_path() + " did not end within " + std::to_string(limit) +
                        " s and was killed; KILN_PTXAS_TIMEOUT sets how long it may take");
    }
    if (poll(&ready, 1, static_cast<int>(std::min<long>(left, 60'000))) <= 0) continue;
    char digits[16];
    const ssize_t count = ::read(report, digits, sizeof digits);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    code.append(digits, static_cast<std::size_t>(count));
    if (code.ends_with('\n')) break;
  }
  shell.wait();
  return code;
}

// Runs ptxas with its output in a file, and returns whether it succeeded. Throws a TargetError if it cannot
// be started or does not end. A shell runs it and reports its exit code, because the application may ignore
// SIGCHLD or take the status of all its child processes (jit/base/child.h).
bool run_ptxas(std::vector<std::string> words, const std::string& log) {
  const char* script = "\"$@\" 3>&-; echo $? >&3";
  words.insert(words.begin(), {"sh", "-c", script, "sh", ptxas_path()});
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Pipe report;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_adddup2(&actions, report.ends[1], 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // It gets its own group, which can be killed as a whole, and none of the application's handling of signals.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t child = 0;
  const int problem = posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) throw TargetError("/bin/sh, which runs " + ptxas_path() + ", cannot be started");
  Child shell(child);
  report.close_writer();
  const std::string code = wait_for(shell, report.ends[0]);
  constexpr std::string_view cannot_execute = "126\n";
  if (code == cannot_execute) throw TargetError(ptxas_path() + " cannot be started");
  return code == "0\n";
}

// Finds "13.0.88" in "Cuda compilation tools, release 13.0, V13.0.88"; empty if it prints something else.
std::string find_version() {
  if (ptxas_path().empty()) return "";
  TemporaryFolder folder;
  const std::string log = (folder.path / "log").string();
  if (!run_ptxas({"--version"}, log)) return "";
  const std::vector<char> said = read(log);
  const std::string text(said.begin(), said.end());
  static const std::regex version("V([0-9]+(\\.[0-9]+)+)");
  std::smatch found;
  return std::regex_search(text, found, version) ? found[1].str() : "";
}

} // namespace

const std::string& ptxas_path() {
  static const std::string path = find_ptxas();
  return path;
}

std::string why_no_ptxas() {
  const auto& given = environment_options().ptxas;
  if (given && !given->empty() && !is_program(*given))
    return "KILN_PTXAS names " + *given + ", which is no program; name a ptxas, or unset it";
  if (!ptxas_path().empty())
    return ptxas_path() + " does not print its version as ptxas does; name another one with KILN_PTXAS";
  return "there is no ptxas here; install the CUDA toolkit, or name one with KILN_PTXAS";
}

const std::string& ptxas_version() {
  static const std::string version = [] {
    try {
      return find_version();
    } catch (const TargetError&) { // it does not start, or does not end
      return std::string();
    }
  }();
  return version;
}

Assembled assemble(const std::string& ptx, const std::string& arch) {
  if (ptxas_path().empty()) throw TargetError(why_no_ptxas());
  TemporaryFolder folder;
  const std::string source = (folder.path / "kernel.ptx").string(),
                    object = (folder.path / "kernel.cubin").string(), log = (folder.path / "log").string();
  std::ofstream(source, std::ios::binary) << ptx;
  std::vector<std::string> words = {"-v", "--gpu-name", arch, source, "-o", object};
  if (ptx.find("\t.loc") != std::string::npos) words.push_back("-lineinfo");
  const bool ok = run_ptxas(words, log);
  Assembled result;
  std::vector<char> text = read(log);
  result.log.assign(text.begin(), text.end());
  result.ok = ok;
  if (result.ok) result.cubin = read(object);
  constexpr std::string_view magic = "\x7f"
                                     "ELF";
  if (result.ok && !std::string_view(result.cubin.data(), result.cubin.size()).starts_with(magic)) {
    result.ok = false;
    result.log += "ptxas reported no error but wrote no ELF file";
  }
  return result;
}

bool has_complaint(const std::string& log) {
  static const std::regex spills("[1-9][0-9]* bytes (stack frame|spill stores|spill loads)");
  return std::regex_search(log, spills) || log.find("warning") != std::string::npos ||
         log.find("C75") != std::string::npos;
}

} // namespace kiln::gpu
