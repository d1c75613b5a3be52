// Checks the environment variables that Kiln reads: unknown names and invalid values.
#include <kiln/autotune/cli/doctor.h>

#include <kiln/autotune/mode.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/cli/support/dispatch.h>

#include <algorithm>
#include <array>

extern char** environ;

namespace kiln::doctor {

namespace {

// Variables that only programs outside the library read: benchmarks, users of the C interface, and build.sh.
constexpr std::array other_variables{"KILN_TUNING_SPACES", "KILN_LIBRARY", "KILN_PYTHON", "KILN_BUILD_DIR",
                                     "KILN_JOBS"};
// Prefixes of the variables that tests, samples and benchmarks read.
constexpr std::array known_families{"KILN_TEST_", "KILN_SAMPLES_", "KILN_BENCH_"};

std::vector<std::string> known_variables() {
  std::vector<std::string> names = option_variables();
  names.insert(names.end(), other_variables.begin(), other_variables.end());
  return names;
}

const std::string* value_of(const Variables& variables, std::string_view name) {
  for (const auto& [known, value] : variables)
    if (known == name) return &value;
  return nullptr;
}

// Adds the options' own warnings. The part after the semicolon says which value is used instead.
void add_option_warnings(Findings& findings, const Variables& variables) {
  auto lookup = [](const char* name, void* context) -> const char* {
    const std::string* value = value_of(*static_cast<const Variables*>(context), name);
    return value ? value->c_str() : nullptr;
  };
  const ParsedOptions parsed = parse_options(lookup, const_cast<Variables*>(&variables));
  for (const std::string& warning : parsed.warnings) {
    const std::size_t semicolon = warning.find("; ");
    findings.push_back({"environment", Verdict::warning, warning.substr(0, semicolon),
                        semicolon == std::string::npos ? "" : warning.substr(semicolon + 2)});
  }
}

// Values that the tuner parses.
void add_wrong_values(Findings& findings, const Variables& variables) {
  if (const auto* text = value_of(variables, "KILN_TUNE"); text && !text->empty()) try {
      tune::parse_mode(*text, "KILN_TUNE");
    } catch (const UserError& error) {
      findings.push_back({"environment", Verdict::broken, error.what(), "correct it, or unset KILN_TUNE"});
    }
}

} // namespace

Variables variables_of_process() {
  Variables variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

bool is_known_variable(std::string_view name) {
  const std::vector<std::string> known = known_variables();
  return std::find(known.begin(), known.end(), name) != known.end() ||
         std::any_of(known_families.begin(), known_families.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

Findings check_environment(const Variables& variables) {
  Findings findings;
  std::string set;
  for (const auto& [name, value] : variables) {
    if (!name.starts_with("KILN_")) continue;
    if (is_known_variable(name)) {
      set += (set.empty() ? "" : ", ") + name + (value.empty() ? " (empty)" : "");
      continue;
    }
    const std::string meant = cli::nearest(name, known_variables());
    findings.push_back({"environment", Verdict::warning, name + " is set, but nothing reads it",
                        meant.empty() ? "unset it" : "did you mean " + meant + "?"});
  }
  add_option_warnings(findings, variables);
  add_wrong_values(findings, variables);
  if (findings.empty())
    findings.push_back(
        {"environment", Verdict::ok, set.empty() ? "no variable of Kiln is set" : set + " set", ""});
  return findings;
}

} // namespace kiln::doctor
