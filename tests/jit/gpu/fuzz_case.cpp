// Draws cases of the fuzzer, and compiles them in child processes that may crash.
#include "fuzz_case.h"

#include <dsl/random_kernel.h>
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>

#include <chrono>
#include <cstring>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::test {
namespace {

constexpr const char* architectures[] = {"sm_80", "sm_90a", "sm_100a"};

// Sizes that compilers handle badly, and sizes that no kernel is made for.
constexpr std::int64_t extremes[] = {1,   2,   3,   16,  31,  32,   64,   100,
                                     127, 128, 255, 256, 500, 1024, 4096, 65536};

void compile(const FuzzCase& c, FuzzResult& result) {
  try {
    auto lowered = passes::lower_generic(*c.kernel, {c.config, c.layouts, c.debug});
    const std::string ptx =
        gpu::compile_to_ptx(*lowered, {c.arch}, {.warps = c.warps, .debug = c.debug}).text;
    result.kind = FuzzResult::Kind::Assembled;
    if (gpu::ptxas_path().empty()) return;
    const gpu::Assembled assembled = gpu::assemble(ptx, c.arch);
    if (assembled.ok) return;
    result.kind = FuzzResult::Kind::Failed;
    result.text = "ptxas: " + assembled.log;
  } catch (const UserError& e) {
    result.kind = FuzzResult::Kind::Refused;
    result.text = e.what();
  } catch (const std::exception& e) {
    result.kind = FuzzResult::Kind::Failed;
    result.text = e.what();
  }
}

std::string read_all(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

} // namespace

FuzzCase fuzz_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](std::uint64_t n) { return random() % n; };
  RandomKernelOptions options;
  options.steps = below(10) == 0 ? 100 : 5 + static_cast<int>(below(30));
  options.large = below(3) == 0;
  options.prints = below(4) == 0;
  RandomKernel drawn = random_kernel(seed, options);
  FuzzCase c;
  c.seed = seed;
  c.kernel = std::move(drawn.kernel);
  c.config = drawn.config;
  if (below(3) == 0)
    for (const Binding& b : drawn.config)
      if (below(2) == 0) c.config.set(b.name, extremes[below(std::size(extremes))]);
  const bool mixed = below(2) == 0;
  const auto all = static_cast<LayoutClass>(below(3));
  for (const auto& arg : c.kernel->body.args)
    if (arg->type.is_view()) c.layouts.push_back(mixed ? static_cast<LayoutClass>(below(3)) : all);
  c.warps = 1 << below(6);
  if (below(50) == 0) c.warps = static_cast<int>(below(70)) - 2;
  c.debug = below(4) == 0;
  c.arch = architectures[below(3)];
  return c;
}

std::string to_string(const FuzzCase& c) {
  std::string text = "seed " + std::to_string(c.seed) + " {" + c.config.to_string() +
                     "} num_warps=" + std::to_string(c.warps) + (c.debug ? " debug " : " ") + c.arch;
  for (LayoutClass l : c.layouts)
    text += l == LayoutClass::Any ? " any" : l == LayoutClass::Unit ? " unit" : " aligned";
  return text + "\n" + ir::print(*c.kernel);
}

FuzzResult run(const FuzzCase& c, int most_seconds) {
  gpu::ptxas_path(); // found once, before the fork
  FuzzResult result;
  const auto begin = std::chrono::steady_clock::now();
  int ends[2];
  if (pipe(ends) != 0) return result;
  const pid_t child = fork();
  if (child == 0) {
    alarm(static_cast<unsigned>(most_seconds));
    for (int s : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS})
      signal(s, SIG_DFL); // without a report of the test program
    dup2(ends[1], 2);     // what LLVM prints before it ends the process
    compile(c, result);
    const std::string said = static_cast<char>('0' + static_cast<int>(result.kind)) + result.text;
    if (write(ends[1], said.data(), said.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  const std::string said = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !said.empty()) {
    result.kind = static_cast<FuzzResult::Kind>(said[0] - '0');
    result.text = said.substr(1);
  } else {
    result.text = WIFSIGNALED(status)
                      ? (WTERMSIG(status) == SIGALRM ? "took more than " + std::to_string(most_seconds) + " s"
                                                     : std::string(strsignal(WTERMSIG(status))))
                      : "ended with exit code " + std::to_string(WEXITSTATUS(status));
    result.text += ": " + said;
  }
  return result;
}

} // namespace kiln::test
