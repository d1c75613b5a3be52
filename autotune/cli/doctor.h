// Declares the checks of `kiln doctor`.
//
// Each check reports what it found, whether that is a problem, and what to do about it.
#pragma once

#include <kiln/jit/runtime/device.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::doctor {

enum class Verdict : std::uint8_t {
  ok,
  warning, // slower or noisier than it could be
  broken,  // something does not work
};
const char* name(Verdict verdict);

struct Finding {
  std::string topic; // "cpu target"
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string mend; // what to do; empty if there is no problem
};
using Findings = std::vector<Finding>;

// Where the system reports its state; tests use their own folders.
struct System {
  std::filesystem::path proc = "/proc", sys = "/sys", dev = "/dev";
};

// A variable and its value.
using Variables = std::vector<std::pair<std::string, std::string>>;
Variables variables_of_process();
bool is_known_variable(std::string_view name);
// Reports variables that nothing reads, and invalid values.
Findings check_environment(const Variables& variables);

Findings check_target();                            // the CPU for which code is compiled
Findings check_threads();                           // how many threads share a launch, and what limits them
Findings check_governor(const System& system = {}); // the CPUs' clock governor
Findings check_huge_pages(const System& system = {});
// The fractions of the CPUs' time between two readings of /proc/stat that the hypervisor took and that were
// used.
struct CpuTime {
  double stolen = 0, busy = 0;
};
CpuTime cpu_time(const std::string& before, const std::string& after);
Findings check_load(const CpuTime& time);
Findings check_load_now(const System& system = {}); // measures for a quarter of a second

Findings check_cuda(const System& system = {});
Findings check_ptxas();
Findings check_kernel(Device device); // checks that a kernel compiles, runs and computes the right result

// Checks a folder in which Kiln keeps things; `topic` and `what` describe it.
Findings check_folder(const std::string& topic, const std::string& what, const std::filesystem::path& folder);
Findings check_cache();
Findings check_records();
Findings check_command(); // the program that runs the measuring processes

// Runs all checks. If a check throws, its finding is `broken`.
Findings check_all();

} // namespace kiln::doctor
