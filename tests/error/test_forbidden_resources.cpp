// Tests kernels in a process whose system forbids executable memory, and in one without file descriptors: the
// error or warning names the cause, and LLVM writes nothing to stderr.
//
// Each case runs this program again, because the restrictions of a process cannot be lifted.
#include "error_test.h"
#include "test_seed.h"

#include <kiln/jit/base/sanitized.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

namespace {

KILN_DIM(BN);

constexpr int skipped = 77;
constexpr int set_mdwe = 65; // PR_SET_MDWE: Linux 6.3, newer than many headers
constexpr const char* variable = "KILN_TEST_FORBIDDEN_RESOURCES";

// What is written to stderr while it lives.
class CapturedErrors {
public:
  CapturedErrors() : file_(std::tmpfile()), saved_(dup(2)) { dup2(fileno(file_), 2); }
  std::string take() {
    std::fflush(stderr);
    dup2(saved_, 2);
    std::string text;
    std::rewind(file_);
    for (int c; (c = std::fgetc(file_)) != EOF;)
      text += static_cast<char>(c);
    return text;
  }

private:
  std::FILE* file_;
  int saved_;
};

bool report(bool right, const std::string& text) {
  if (!right) std::fprintf(stderr, "%s\n", text.c_str());
  return right;
}

// A kernel that is in no cache.
const std::string kernel_line = KILN_HERE(2);
auto fresh_kernel(float value) {
  return kernel("fresh", [value](View<const float, 1> x, View<float, 1> y) {
    auto [n] = program_tile(y, BN);
    y.tile(n).store(x.tile(n).load() * 2 + value);
  });
}
const auto number = static_cast<float>(fresh_seed() % 1000003);

int without_executable_memory() {
  if (prctl(set_mdwe, 1, 0, 0, 0) != 0) return skipped;
  const auto fresh = fresh_kernel(number);
  std::vector<float> x(50, 1), y(50);
  CapturedErrors errors;
  std::string text = "no error";
  try {
    Stream stream;
    fresh.launch(stream, {BN = 64}, TensorView(x, {50}), TensorView(y, {50}));
    stream.synchronize();
  } catch (const TargetError& e) {
    text = e.what();
  }
  const std::string written = errors.take();
  const std::string expected = kernel_line +
                               ": kernel fresh with the config {BN=64}: its code cannot be linked: the "
                               "system forbids executable memory in "
                               "this process (Permission denied), and kernels for the CPU are machine code "
                               "that Kiln writes to memory; allow "
                               "it (SELinux: the permission execmem; systemd: MemoryDenyWriteExecute=no; "
                               "prctl: no PR_SET_MDWE), or launch on "
                               "another device";
  if (!report(text == expected, "the error is: " + text)) return 1;
  return report(written.empty(), "written to stderr: " + written) ? 0 : 1;
}

int without_descriptors() {
  std::vector<float> x(50, 1), y(50);
  CapturedErrors errors;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int lowest = dup(2);
  close(lowest);
  limit.rlim_cur = static_cast<rlim_t>(lowest); // no descriptor is left
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return skipped;
  for (float added : {number, number + 1}) {
    const auto fresh = fresh_kernel(added);
    Stream stream;
    fresh.launch(stream, {BN = 64}, TensorView(x, {50}), TensorView(y, {50}));
    stream.synchronize();
    if (y[49] != 2 + added) return 1;
  }
  const std::string written = errors.take();
  const std::string
      start = "kiln: warning: the kernel cache is not used now: the folder ",
      end = " cannot be opened (Too many open files: this process has no file descriptor left; close "
            "files, or raise its limit (ulimit -n, RLIMIT_NOFILE))\n";
  const bool right = written.starts_with(start) && written.ends_with(end) &&
                     std::count(written.begin(), written.end(), '\n') == 1;
  return report(right, "written to stderr: " + written) ? 0 : 1;
}

int run_case(const char* name) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv(variable, name, 1);
    unsetenv("KILN_KEEP"); // kept files cannot be written either, which is a warning of its own
    alarm(120);
    execl("/proc/self/exe", "api_tests", "forbidden resources: the case of the environment", nullptr);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  if (WEXITSTATUS(status) == skipped) WARN("skipped: this system has no such restriction");
  return WEXITSTATUS(status) == skipped ? 0 : WEXITSTATUS(status);
}

} // namespace

// This case is hidden. The cases below start it in new processes.
TEST_CASE("forbidden resources: the case of the environment", "[.]") {
  const char* name = std::getenv(variable);
  if (!name) {
    WARN("skipped: started by the cases below");
    return;
  }
  _exit(std::strcmp(name, "memory") == 0 ? without_executable_memory() : without_descriptors());
}

TEST_CASE("a system that forbids executable memory is the error, with the config of the launch") {
  if (sanitized) return; // the sanitizers need such memory themselves
  CHECK(run_case("memory") == 0);
}

TEST_CASE("a process without file descriptors runs kernels, and a warning says why none is cached") {
  if (sanitized) return;
  CHECK(run_case("descriptors") == 0);
}
