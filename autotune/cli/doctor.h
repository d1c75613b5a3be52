// What `kiln doctor` looks at: each check tells what it found, whether that is as it should be, and what to
// do.
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
  std::string mend; // empty if all is well
};
using Findings = std::vector<Finding>;

// Where the system tells of itself; tests have folders of their own.
struct System {
  std::filesystem::path proc = "/proc", sys = "/sys", dev = "/dev";
};

// A variable and its value.
using Variables = std::vector<std::pair<std::string, std::string>>;
Variables variables_of_process();
bool is_known_variable(std::string_view name);
// Variables that nobody reads, and values that are not understood.
Findings check_environment(const Variables& variables);

Findings check_target();                            // the CPU that code is made for
Findings check_threads();                           // how many share a launch, and what limits them
Findings check_governor(const System& system = {}); // the CPUs' clock
Findings check_huge_pages(const System& system = {});
// Which shares of the CPUs' time between two readings of /proc/stat the hypervisor took, and others used.
struct CpuTime {
  double stolen = 0, busy = 0;
};
CpuTime cpu_time(const std::string& before, const std::string& after);
Findings check_load(const CpuTime& time);
Findings check_load_now(const System& system = {}); // in a quarter of a second

Findings check_cuda(const System& system = {});
Findings check_ptxas();
Findings check_kernel(Device device); // that a kernel compiles, runs and computes what it should

// A folder that Kiln keeps things in: `topic` and `what` name it.
Findings check_folder(const std::string& topic, const std::string& what, const std::filesystem::path& folder);
Findings check_cache();
Findings check_records();
Findings check_command(); // the program whose processes measure

// All of them. A check that throws is a broken one.
Findings check_all();

} // namespace kiln::doctor
