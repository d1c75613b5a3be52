// Reads tile IR, runs passes on it and prints the result, so that each pass can be tested on its own.
//
//   kiln-opt --passes=cse,dce --config BM=128 kernel.kir
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cli/support/read_input.h>
#include <kiln/jit/cpu/rewrite/passes.h>
#include <kiln/jit/passes/pass.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

using namespace kiln;

namespace {

struct Options {
  std::string input = "-", passes, config, layouts;
  bool verify_only = false, locations = false, list_passes = false, split = false, verify_diagnostics = false;
};

// The generic passes and those of the code generators.
std::vector<passes::PassInfo> available_passes() {
  std::vector<passes::PassInfo> all = passes::generic_passes();
  const auto& of_cpu = cpu::cpu_passes();
  all.insert(all.end(), of_cpu.begin(), of_cpu.end());
  return all;
}

// Splits text at lines `// -----`. Each part begins with as many empty lines as there are lines before it, so
// that line numbers stay valid.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  std::istringstream lines(text);
  std::string line;
  for (std::size_t count = 1; std::getline(lines, line); ++count)
    if (line.rfind("// -----", 0) == 0)
      parts.emplace_back(count, '\n');
    else
      parts.back() += line + "\n";
  return parts;
}

std::vector<LayoutClass> parse_layouts(const std::string& text) {
  std::vector<LayoutClass> layouts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word != "any" && word != "unit" && word != "aligned")
      throw UserError("--layouts: expected any, unit or aligned, found \"" + word + "\"");
    layouts.push_back(word == "any"    ? LayoutClass::Any
                      : word == "unit" ? LayoutClass::Unit
                                       : LayoutClass::Aligned);
  }
  return layouts;
}

// Processes one part. Returns the problems, one per line; the output goes to `out`.
std::string process(const std::string& text, const std::string& file_name, const Options& options,
                    std::string& out) {
  try {
    passes::PassOptions pass_options{Config::parse(options.config), parse_layouts(options.layouts)};
    for (auto& kernel : ir::parse_all(text, file_name)) {
      ir::verify(*kernel, ir::Blame::Author);
      if (options.verify_only) continue;
      passes::run_passes(*kernel, options.passes, pass_options, available_passes());
      out += ir::print(*kernel, {.locations = options.locations});
    }
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

struct Diagnostic {
  int line = 0;
  std::string text;
  bool matched = false;
};

// Finds the problems that begin with "file:line:".
std::vector<Diagnostic> diagnostics_in(const std::string& problems, const std::string& file_name) {
  std::vector<Diagnostic> found;
  std::istringstream lines(problems);
  for (std::string line; std::getline(lines, line);) {
    int number = line.rfind(file_name + ":", 0) == 0 ? std::atoi(line.c_str() + file_name.size() + 1) : 0;
    found.push_back({number, line});
  }
  return found;
}

// `// expected-error {{words}}` refers to its own line, `expected-error@-1` to the line above, and
// `expected-error@*` to any line.
std::vector<Diagnostic> expectations_in(const std::string& text) {
  std::vector<Diagnostic> expected;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    static const std::string marker = "expected-error";
    for (auto at = line.find(marker); at != std::string::npos; at = line.find(marker, at + 1)) {
      auto open = line.find("{{", at), close = line.find("}}", at);
      if (open == std::string::npos || close == std::string::npos || close < open) continue;
      const char* place = line.c_str() + at + marker.size();
      bool anywhere = place[0] == '@' && place[1] == '*';
      int about = anywhere ? 0 : number + (place[0] == '@' ? std::atoi(place + 1) : 0);
      expected.push_back({about, line.substr(open + 2, close - open - 2)});
    }
  }
  return expected;
}

// Whether the problems are exactly those that are expected. Prints the differences.
bool as_expected(const std::string& text, const std::string& problems, const std::string& file_name) {
  auto expected = expectations_in(text), found = diagnostics_in(problems, file_name);
  bool ok = true;
  for (Diagnostic& want : expected) {
    for (Diagnostic& have : found) {
      bool here = want.line == 0 || want.line == have.line;
      if (want.matched || have.matched || !here || have.text.find(want.text) == std::string::npos) continue;
      want.matched = have.matched = true;
    }
    if (!want.matched)
      fmt::print(stderr, "{}:{}: expected but not found: {}\n", file_name, want.line, want.text);
    ok &= want.matched;
  }
  for (const Diagnostic& have : found) {
    if (!have.matched) fmt::print(stderr, "found but not expected: {}\n", have.text);
    ok &= have.matched;
  }
  return ok;
}

int run(const Options& options) {
  if (options.list_passes) {
    for (const passes::PassInfo& pass : available_passes())
      fmt::print("{:<22}{}\n", pass.name, pass.description);
    return 0;
  }
  std::string text = cli::read_input(options.input, "name a file with tile IR, or - for the standard input"),
              file_name = options.input == "-" ? "<stdin>" : options.input;
  std::vector<std::string> parts = options.split ? split(text) : std::vector{text};
  bool ok = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string out, problems = process(parts[i], file_name, options, out);
    if (i > 0 && !options.verify_only) fmt::print("// -----\n");
    fmt::print("{}", out);
    if (options.verify_diagnostics) {
      ok &= as_expected(parts[i], problems, file_name);
    } else if (!problems.empty()) {
      std::fflush(stdout);
      fmt::print(stderr, "{}\n", problems);
      ok = false;
    }
  }
  return ok ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Reads tile IR, runs passes on it and prints the result.", "kiln-opt");
  Options options;
  app.add_option("input", options.input, "file with kernels, or - for the standard input");
  app.add_option("--passes", options.passes, "passes to run in order, as in cse,dce");
  app.add_option("--config", options.config, "sizes and options, as in BM=128,BN=64");
  app.add_option("--layouts", options.layouts, "layout class of each view parameter, as in any,unit,aligned");
  app.add_flag("--verify-only", options.verify_only, "parse and verify, print nothing");
  app.add_flag("--locations", options.locations, "print the source location of each operation");
  app.add_flag("--list-passes", options.list_passes, "list the passes");
  app.add_flag("--split-input-file", options.split, "treat the parts between lines `// -----` one by one");
  app.add_flag("--verify-diagnostics", options.verify_diagnostics,
               "succeed if the problems are exactly those of the comments `// expected-error {{words}}`");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const Error& error) {
    fmt::print(stderr, "kiln-opt: {}\n", error.what());
    return 1;
  }
}
