// Checks the CPU: the target of code, the number of threads, and what disturbs them.
#include <kiln/autotune/cli/doctor.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/cpu/target.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace kiln::doctor {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string first_line(const std::filesystem::path& path) {
  std::string text = read_file(path);
  return text.substr(0, text.find('\n'));
}

constexpr double much_stolen = 0.01, much_used = 0.15; // fractions of the CPUs' time

} // namespace

Findings check_target() try {
  const cpu::Target& target = cpu::host_target();
  Finding finding{"cpu target", Verdict::ok,
                  fmt::format("{}, {}-byte vectors", target.cpu, target.vector_bytes), ""};
  if (!options().cpu.empty()) {
    finding.found += ", as set by KILN_CPU";
    if (!target.avx2) {
      finding.verdict = Verdict::warning;
      finding.mend = "unset KILN_CPU unless the code must run on such a CPU: it does not use wider vectors";
    }
  } else if (!target.avx2) {
    finding.found += "; kernels run several times faster on CPUs with AVX2 or AVX-512";
  }
  return {finding};
} catch (const UserError& error) { // its text lists all CPUs
  const std::string what = error.what();
  return {{"cpu target", Verdict::broken,
           fmt::format("KILN_CPU is '{}': {}", options().cpu, what.substr(0, what.find(';'))),
           "name a CPU that LLVM knows and whose instructions this one has, or unset KILN_CPU"}};
}

Findings check_threads() {
  const ThreadBudget budget = thread_budget();
  const int cpus = static_cast<int>(affinity_cpus().size());
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const double quota = cgroup_cpu_limit();
  Finding finding{"threads", Verdict::ok, fmt::format("{} share a launch, on {} CPUs", budget.threads, cpus),
                  ""};
  if (cpus < online) finding.found += fmt::format(" of {} (the process's affinity)", online);
  if (options().num_threads > 0) finding.found += ", as set by KILN_NUM_THREADS";
  if (budget.threads > cpus) {
    finding.verdict = Verdict::warning;
    finding.mend =
        fmt::format("set KILN_NUM_THREADS to at most {}: threads that wait for a CPU delay the others", cpus);
  } else if (quota > 0 && quota < budget.threads) {
    finding.verdict = Verdict::warning;
    finding.found += fmt::format("; the control group limits them to the time of {:.4g} CPUs", quota);
    finding.mend =
        "kernels pause when that time is used up, and timings are noisy: raise the container's CPU limit, or "
        "pin it to whole CPUs";
  }
  return {finding};
}

Findings check_governor(const System& system) {
  std::map<std::string, int> governors;
  std::error_code none;
  for (const auto& cpu : std::filesystem::directory_iterator(system.sys / "devices/system/cpu", none))
    if (std::string governor = first_line(cpu.path() / "cpufreq/scaling_governor"); !governor.empty())
      ++governors[governor];
  if (governors.empty())
    return {{"governor", Verdict::ok, "the system reports none (virtual machines have none)", ""}};
  std::string text;
  for (const auto& [governor, count] : governors)
    text += fmt::format("{}{} on {} CPUs", text.empty() ? "" : ", ", governor, count);
  if (governors.size() == 1 && governors.begin()->first == "performance")
    return {{"governor", Verdict::ok, text, ""}};
  return {{"governor", Verdict::warning, text + "; clocks rise while a kernel is timed",
           "for steady timings: sudo cpupower frequency-set -g performance"}};
}

Findings check_huge_pages(const System& system) {
  const std::string text = first_line(system.sys / "kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open)
    return {{"huge pages", Verdict::ok, "the system does not report them", ""}};
  const std::string chosen = text.substr(open + 1, close - open - 1);
  if (chosen != "never") return {{"huge pages", Verdict::ok, chosen, ""}};
  return {{"huge pages", Verdict::warning, "never: large tensors miss the TLB more often",
           "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"}};
}

CpuTime cpu_time(const std::string& before, const std::string& after) {
  // "cpu user nice system idle iowait irq softirq steal ...", in ticks summed over all CPUs.
  const auto ticks = [](const std::string& line) {
    std::istringstream in(line);
    std::string word;
    std::vector<double> values;
    if (in >> word && word == "cpu")
      for (double value; values.size() < 8 && in >> value;)
        values.push_back(value);
    values.resize(8);
    return values;
  };
  const std::vector<double> a = ticks(before), b = ticks(after);
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    all += std::max(0.0, b[i] - a[i]);
  if (all <= 0) return {};
  const double idle = std::max(0.0, b[3] - a[3]) + std::max(0.0, b[4] - a[4]),
               stolen = std::max(0.0, b[7] - a[7]);
  return {stolen / all, 1 - (idle + stolen) / all};
}

Findings check_load(const CpuTime& time) {
  Findings findings;
  if (time.stolen > much_stolen)
    findings.push_back(
        {"steal", Verdict::warning,
         fmt::format("the hypervisor gave {:.1f} % of the CPUs' time to other machines", 100 * time.stolen),
         "timings are noisy: tune on a dedicated machine, or with more trials"});
  else
    findings.push_back({"steal", Verdict::ok, fmt::format("{:.1f} %", 100 * time.stolen), ""});
  if (time.busy > much_used)
    findings.push_back({"other load", Verdict::warning,
                        fmt::format("other processes use {:.0f} % of the CPUs' time", 100 * time.busy),
                        "timings are noisy while they run: wait for them, or stop them"});
  else
    findings.push_back({"other load", Verdict::ok, fmt::format("{:.0f} %", 100 * time.busy), ""});
  return findings;
}

Findings check_load_now(const System& system) {
  const std::string before = first_line(system.proc / "stat");
  if (before.empty()) return {};
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  return check_load(cpu_time(before, first_line(system.proc / "stat")));
}

} // namespace kiln::doctor
