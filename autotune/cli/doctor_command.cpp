// Implements the command `kiln doctor`, which reports problems of this machine and what to do about them.
#include <kiln/autotune/cli/doctor.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace kiln::doctor {

namespace {

void add(Findings& findings, const std::string& topic, const std::function<Findings()>& check) {
  try {
    for (Finding& finding : check())
      findings.push_back(std::move(finding));
  } catch (const std::exception& error) {
    findings.push_back({topic, Verdict::broken, error.what(), ""});
  }
}

long count(const Findings& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.verdict == verdict; });
}

void print_text(const Findings& findings) {
  for (const Finding& f : findings) {
    fmt::print("{:<8} {:<17} {}\n", name(f.verdict), f.topic, f.found);
    if (!f.mend.empty()) fmt::print("{:<26} -> {}\n", "", f.mend);
  }
  const long broken = count(findings, Verdict::broken), warnings = count(findings, Verdict::warning);
  if (broken + warnings == 0) return fmt::print("\nno problems\n");
  fmt::print("\n{} broken, {} warning{}\n", broken, warnings, warnings == 1 ? "" : "s");
}

void print_json(const Findings& findings) {
  auto checks = nlohmann::ordered_json::array();
  for (const Finding& f : findings)
    checks.push_back(
        {{"topic", f.topic}, {"verdict", name(f.verdict)}, {"found", f.found}, {"mend", f.mend}});
  const nlohmann::ordered_json json = {{"broken", count(findings, Verdict::broken)},
                                       {"warnings", count(findings, Verdict::warning)},
                                       {"checks", checks}};
  // Paths and variables may contain any bytes.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run_doctor(int argc, char** argv) {
  CLI::App app("Reports what Kiln finds on this machine, what is wrong, and what to do about it. The exit "
               "code is 1 if "
               "something is broken; warnings do not count.",
               "kiln doctor");
  bool json = false;
  app.add_flag("--json", json, "print JSON");
  if (auto code = cli::parse(app, argc, argv)) return *code;
  const Findings findings = check_all();
  json ? print_json(findings) : print_text(findings);
  return count(findings, Verdict::broken) > 0;
}

const cli::CommandRegistration
    registration({"doctor", "reports problems of this machine, and what to do about them", run_doctor});

} // namespace

const char* name(Verdict verdict) {
  constexpr const char* names[] = {"ok", "warning", "broken"};
  return names[static_cast<std::size_t>(verdict)];
}

Findings check_all() {
  Findings findings;
  add(findings, "environment", [] { return check_environment(variables_of_process()); });
  add(findings, "cpu target", check_target);
  if (findings.back().verdict != Verdict::broken) // otherwise no kernel can be compiled either
    add(findings, "kernel on cpu", [] { return check_kernel(Device::cpu()); });
  add(findings, "threads", check_threads);
  add(findings, "governor", [] { return check_governor(); });
  add(findings, "huge pages", [] { return check_huge_pages(); });
  add(findings, "other load", [] { return check_load_now(); });
  add(findings, "cuda", [] { return check_cuda(); });
  for (int i = 0; i < Device::cuda_count(); ++i)
    add(findings, fmt::format("kernel on cuda:{}", i), [&] { return check_kernel(Device::cuda(i)); });
  add(findings, "ptxas", check_ptxas);
  add(findings, "cache folder", check_cache);
  add(findings, "tuner's folder", check_records);
  add(findings, "worker command", check_command);
  return findings;
}

} // namespace kiln::doctor
