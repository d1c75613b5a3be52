// Tests what needs processes of their own: ops on other numbers of threads, and under a policy that forbids
// compiling.
#include "every_op.h"

#include "temporary_folder.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr const char *case_variable = "KILN_TEST_OP_CASE", *file_variable = "KILN_TEST_OP_FILE";

// FNV-1a.
std::uint64_t hash(const std::vector<unsigned char>& bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (unsigned char b : bytes)
    h = (h ^ b) * 0x100000001b3;
  return h;
}

// The tiles of products and of attention_backward depend on the number of threads, and small tiles sum in
// another order than large ones.
bool depends_on_threads(const std::string& op) {
  for (const char* name : {"matmul", "linear", "grouped_matmul", "attention_backward"})
    if (op.starts_with(name)) return true;
  return false;
}

// Writes a line for each op whose bits do not depend on the number of threads: its name and the hash of what
// it computes.
void write_hashes(std::ostream& out) {
  EveryOp every(
      Device::cpu(),
      {.tokens = 170, .width = 32, .columns = 200, .experts = 5, .inner = 130}); // for several threads
  Stream stream;
  for (const EveryOp::Call& call : every.calls()) {
    if (depends_on_threads(call.name)) continue;
    every.fill(fresh_seed());
    call.run(stream);
    stream.synchronize();
    out << call.name << ": " << hash(every.bytes()) << '\n';
  }
}

// Checks the errors of calls that would compile, that these write nothing, and that a rehearsal allows them.
void check_forbidden(std::ostream& out) {
  EveryOp every(Device::cpu());
  Stream stream;
  every.fill(fresh_seed());
  const auto before = every.bytes();
  set_compile_policy(CompilePolicy::forbid);
  for (const EveryOp::Call& call : every.calls()) {
    INFO(call.name);
    std::string text = "no error";
    try {
      call.run(stream);
    } catch (const UserError& e) {
      text = e.what();
    }
    stream.synchronize();
    CHECK_THAT(text, Catch::Contains("every_op.h:") && Catch::Contains("the op's kernel \"") &&
                         Catch::Contains(" [") && Catch::Contains("the compile policy forbids compiling it"));
    out << call.name << ": " << text << '\n';
  }
  CHECK((every.bytes() == before));
  set_compile_policy(CompilePolicy::allow);
  rehearse([&] {
    for (const EveryOp::Call& call : every.calls())
      call.run(stream);
  });
  set_compile_policy(CompilePolicy::forbid);
  for (const EveryOp::Call& call : every.calls()) {
    INFO(call.name);
    CHECK_NOTHROW(call.run(stream));
  }
  stream.synchronize();
}

struct Case {
  const char* name;
  void (*run)(std::ostream&);
};
constexpr Case cases[] = {{"hashes", write_hashes}, {"forbidden", check_forbidden}};

// Runs this program again with a case and more variables. Returns its exit status, and what the case wrote.
std::pair<int, std::vector<std::string>>
run_case(const char* name, const std::vector<std::pair<std::string, std::string>>& variables) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "lines").string();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv(case_variable, name, 1);
    setenv(file_variable, file.c_str(), 1);
    for (const auto& [variable, value] : variables)
      setenv(variable.c_str(), value.c_str(), 1);
    alarm(120);
    execl("/proc/self/exe", "api_tests", "ops in a process: the case of the environment", nullptr);
    _exit(127);
  }
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return {status, lines};
}

} // namespace

// This case is hidden. The cases below start it in new processes.
TEST_CASE("ops in a process: the case of the environment", "[.]") {
  const char *name = std::getenv(case_variable), *file = std::getenv(file_variable);
  if (!name || !file) {
    WARN("skipped: started by the cases below");
    return;
  }
  std::ofstream out(file);
  for (const Case& c : cases)
    if (std::string(c.name) == name) c.run(out);
}

TEST_CASE("every op but products and attention_backward gives the same bits on any number of threads") {
  const std::string seed = std::to_string(fresh_seed());
  INFO("seed " << seed);
  std::vector<std::string> of_one;
  for (const char* threads : {"1", "2", "16"}) {
    CAPTURE(threads);
    const auto [status, lines] =
        run_case("hashes", {{"KILN_NUM_THREADS", threads}, {"KILN_TEST_SEED", seed}});
    REQUIRE(status == 0);
    REQUIRE(lines.size() >= 25);
    if (of_one.empty()) of_one = lines;
    for (std::size_t i = 0; i < lines.size(); ++i)
      CHECK(lines[i] == of_one[i]);
  }
}

TEST_CASE("a call of an op that must not compile is an error that names the op and the sizes") {
  const TemporaryFolder cache; // without kernels
  const auto [status, lines] = run_case("forbidden", {{"KILN_CACHE_DIR", cache.path().string()}});
  for (const std::string& line : lines)
    UNSCOPED_INFO(line);
  CHECK(status == 0);
  CHECK(lines.size() >= 40);
}
