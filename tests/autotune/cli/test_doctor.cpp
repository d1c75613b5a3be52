// Tests the findings of `kiln doctor` on systems with problems.
#include <catch2/catch.hpp>

#include "autotune/own_cache.h"
#include "temporary_folder.h"

#include <kiln/autotune/cli/doctor.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/cli/support/dispatch.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::doctor;
namespace fs = std::filesystem;

namespace {

struct Folder : test::TemporaryFolder {
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((path() / file).parent_path());
    std::ofstream(path() / file) << text;
  }
  System system() const { return {path() / "proc", path() / "sys", path() / "dev"}; }
};

Finding only(const Findings& findings) {
  REQUIRE(findings.size() == 1);
  // Every problem comes with a remedy.
  CHECK((findings[0].verdict == Verdict::ok) == findings[0].mend.empty());
  return findings[0];
}

} // namespace

TEST_CASE("the doctor knows every variable that Kiln's sources read", "[doctor]") {
  const fs::path root = fs::path(KILN_TESTS_DIR).parent_path();
  const std::regex quoted("\"(KILN_[A-Z_]+)\"");
  int seen = 0;
  for (const char* folder : {"dsl", "jit", "autotune", "ops", "collectives"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& file : fs::recursive_directory_iterator(root / folder)) {
      if (file.path().extension() != ".cpp" && file.path().extension() != ".h") continue;
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);)
        for (std::sregex_iterator at(line.begin(), line.end(), quoted), end; at != end; ++at) {
          INFO(file.path().string() << ": " << line);
          CHECK(is_known_variable(at->str(1)));
          ++seen;
        }
    }
  }
  CHECK(seen > 20);
}

TEST_CASE("a misspelled variable is reported with the intended one", "[doctor]") {
  const Finding finding = only(check_environment({{"HOME", "/"}, {"KILN_CACH_DIR", "/tmp"}}));
  CHECK(finding.verdict == Verdict::warning);
  CHECK(finding.found == "KILN_CACH_DIR is set, but nothing reads it");
  CHECK(finding.mend == "did you mean KILN_CACHE_DIR?");
}

TEST_CASE("invalid values are reported with the valid ones", "[doctor]") {
  const Finding threads = only(check_environment({{"KILN_NUM_THREADS", "many"}}));
  CHECK(threads.found == "KILN_NUM_THREADS is 'many'");
  CHECK(threads.mend == "use a number from 1 to 4096; all CPUs are used");
  CHECK(only(check_environment({{"KILN_CACHE_LIMIT", "big"}})).verdict == Verdict::warning);
  CHECK(only(check_environment({{"KILN_COMPILE_POLICY", "never"}})).verdict == Verdict::warning);
  const Finding mode = only(check_environment({{"KILN_TUNE", "quickly"}}));
  CHECK(mode.verdict == Verdict::broken);
  CHECK(mode.found.find("unknown mode \"quickly\"; the modes are off, analytic, ") != std::string::npos);
}

TEST_CASE("valid variables are listed", "[doctor]") {
  const Finding finding = only(
      check_environment({{"KILN_CACHE_LIMIT", "500M"}, {"KILN_LOG", "info"}, {"KILN_TUNE", "analytic"}}));
  CHECK(finding.verdict == Verdict::ok);
  CHECK(finding.found == "KILN_CACHE_LIMIT, KILN_LOG, KILN_TUNE set");
  CHECK(only(check_environment({})).found == "no variable of Kiln is set");
}

TEST_CASE("a governor other than performance is a warning", "[doctor]") {
  Folder folder;
  CHECK(only(check_governor(folder.system())).verdict == Verdict::ok); // no governor is reported
  for (const char* cpu : {"cpu0", "cpu1"})
    folder.write(fs::path("sys/devices/system/cpu") / cpu / "cpufreq/scaling_governor", "performance\n");
  CHECK(only(check_governor(folder.system())).found == "performance on 2 CPUs");
  folder.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  const Finding finding = only(check_governor(folder.system()));
  CHECK(finding.verdict == Verdict::warning);
  CHECK(finding.found.starts_with("performance on 1 CPUs, powersave on 1 CPUs"));
}

TEST_CASE("huge pages that are never used are a warning", "[doctor]") {
  Folder folder;
  const fs::path file = "sys/kernel/mm/transparent_hugepage/enabled";
  CHECK(only(check_huge_pages(folder.system())).verdict == Verdict::ok);
  folder.write(file, "always [madvise] never\n");
  CHECK(only(check_huge_pages(folder.system())).found == "madvise");
  folder.write(file, "always madvise [never]\n");
  CHECK(only(check_huge_pages(folder.system())).verdict == Verdict::warning);
}

TEST_CASE("stolen and used time is read from the system's ticks", "[doctor]") {
  const CpuTime time = cpu_time("cpu  100 0 50 800 10 0 0 5 0 0", "cpu  120 0 60 840 10 0 10 25 0 0");
  CHECK(time.stolen == Approx(0.2)); // 20 of 100
  CHECK(time.busy == Approx(0.4));
  CHECK(cpu_time("", "").stolen == 0);
  CHECK(cpu_time("cpu 1 2", "cpu 1 2").busy == 0);
  const Findings noisy = check_load(time);
  REQUIRE(noisy.size() == 2);
  CHECK(noisy[0].verdict == Verdict::warning);
  CHECK(noisy[0].found == "the hypervisor gave 20.0 % of the CPUs' time to other machines");
  CHECK(noisy[1].verdict == Verdict::warning);
  for (const Finding& finding : check_load({}))
    CHECK(finding.verdict == Verdict::ok);
}

TEST_CASE("a folder that is rejected, not writable or cannot be created is broken", "[doctor]") {
  Folder folder;
  const auto check = [](const fs::path& path) { return only(check_folder("cache folder", "kernels", path)); };
  CHECK(check(folder.path()).verdict == Verdict::ok);
  CHECK(check(folder.path() / "not" / "there").verdict == Verdict::ok);
  CHECK(check(folder.path() / "not").found.ends_with("not, which does not exist yet"));
  CHECK(fs::is_empty(folder.path())); // nothing was created or left behind
  CHECK(check("").verdict == Verdict::warning);

  const fs::path open = folder.path() / "open", file = folder.path() / "file";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  CHECK(check(open).verdict == Verdict::broken); // anyone could put code there
  std::ofstream(file) << "x";
  CHECK(check(file).verdict == Verdict::broken);
  CHECK(check(file / "below").verdict == Verdict::broken);
}

TEST_CASE("a kernel computes the right result on the CPU and on an emulated GPU", "[doctor]") {
  CHECK(only(check_kernel(Device::cpu())).verdict == Verdict::ok);
  CHECK(only(check_kernel(Device::emulated("sm_80", EmulatorOptions{}))).verdict == Verdict::ok);
}

TEST_CASE("a GPU without a driver is broken, but no GPU is fine", "[doctor]") {
  if (Device::cuda_count() > 0) {
    WARN("skipped: there is a GPU"); // this tests a machine without a GPU
    return;
  }
  Folder folder;
  const auto pci = fs::path("sys/bus/pci/devices/0000:01:00.0");
  folder.write(pci / "vendor", "0x10de\n"), folder.write(pci / "class", "0x0c0330\n"); // its USB controller
  CHECK(only(check_cuda(folder.system())).verdict == Verdict::ok);
  folder.write(pci / "class", "0x030200\n");
  CHECK(only(check_cuda(folder.system())).verdict == Verdict::broken);
}

TEST_CASE("the doctor checks everything and never throws", "[doctor]") {
  const OwnCache cache;
  const Findings findings = check_all();
  for (const char* topic : {"environment", "cpu target", "threads", "governor", "huge pages", "cuda", "ptxas",
                            "cache folder", "tuner's folder", "kernel on cpu", "steal"}) {
    INFO(topic);
    CHECK(std::any_of(findings.begin(), findings.end(),
                      [&](const Finding& f) { return f.topic.starts_with(topic) && !f.found.empty(); }));
  }
}
