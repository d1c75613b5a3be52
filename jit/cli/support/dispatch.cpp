// Finds the subcommand, runs it, and prints its errors.
#include <kiln/jit/cli/support/dispatch.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/version.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cpu/target.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <numeric>

namespace kiln::cli {

using namespace std::string_view_literals;

namespace {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      int substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string help() {
  std::string text =
      "usage: kiln [--load FILE]... COMMAND [OPTIONS]\n\n"
      "Compiles, inspects, runs and tunes kernels, and manages what Kiln stores on disk.\n\ncommands:\n";
  for (const Command* command : commands())
    text += fmt::format("  {:<12}{}\n", command->name, command->summary);
  return text + "\noptions:\n"
                "  --load FILE   load a shared library that registers more kernels and commands\n"
                "  --version     print the versions of Kiln and LLVM, and the CPU that code is compiled for\n"
                "  --help        print this text; `kiln COMMAND --help` describes one command\n"
                "\nWith --json, a command also prints errors to the standard output: "
                "{\"error\": \"...\"}.\n";
}

void print_version() {
  const cpu::Target& target = cpu::host_target();
  fmt::print("kiln {}\nllvm {}\ntarget cpu {} ({}-byte vectors)\n", version(), llvm_version(), target.cpu,
             target.vector_bytes);
}

int complain(const std::string& what) {
  fmt::print(stderr, "kiln: {}\n", what);
  return wrong_usage;
}

int unknown_command(const std::string& typed) {
  std::vector<std::string> names;
  std::string all;
  for (const Command* command : commands()) {
    names.push_back(command->name);
    all += (all.empty() ? "" : ", ") + names.back();
  }
  std::string meant = nearest(typed, names);
  return complain("there is no command \"" + typed + "\"; " +
                  (meant.empty() ? "choose among " + all : "did you mean " + meant + "?"));
}

// The library is not unloaded, because registered items point into it.
void load(const char* file) {
  if (!dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    const char* why = dlerror();
    throw UserError("--load " + std::string(file) + ": " + (why ? why : "cannot be loaded"));
  }
}

int run_command(const Command& command, int argc, char** argv) {
  int code = command.run(argc, argv);
  // A full disk or a closed pipe must not count as success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "kiln: the output could not be written\n");
    return code ? code : 1;
  }
  return code;
}

int dispatch(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--load") {
      if (++i == argc) return complain("--load needs the name of a shared library");
      load(argv[i]);
    } else if (word == "--help" || word == "-h" || word == "help") {
      fmt::print("{}", help());
      return 0;
    } else if (word == "--version") {
      print_version();
      return 0;
    } else if (word.starts_with("-")) {
      return complain("there is no option " + word + "; `kiln --help` lists those there are");
    } else if (const Command* command = find_command(word)) {
      return run_command(*command, argc - i, argv + i);
    } else {
      return unknown_command(word);
    }
  }
  fmt::print(stderr, "{}", help());
  return wrong_usage;
}

} // namespace

std::string nearest(std::string_view typed, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  int best_distance = std::max(2, static_cast<int>(typed.size()) / 3);
  for (const std::string& name : names) {
    int distance = edit_distance(typed, name);
    if (distance > best_distance || (best && distance == best_distance)) continue;
    best = &name;
    best_distance = distance;
  }
  return best ? *best : std::string();
}

void print_json_error(int argc, char** argv, const std::string& error) {
  using Json = nlohmann::ordered_json;
  if (std::none_of(argv, argv + argc, [](const char* word) { return word == "--json"sv; })) return;
  fmt::print("{}\n", Json{{"error", error}}.dump(2, ' ', false, Json::error_handler_t::replace));
}

int run(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::exception& error) {
    print_json_error(argc, argv, error.what());
    std::fflush(stdout);
    fmt::print(stderr, "kiln: {}\n", error.what());
    return 1;
  }
}

} // namespace kiln::cli
