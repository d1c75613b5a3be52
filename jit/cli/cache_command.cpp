// Implements `kiln cache ls`, `clear` and `verify`, and lists the subcommands that other folders register.
#include <kiln/dsl/error.h>
#include <kiln/jit/cache/commands.h>
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>

#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::cli {

namespace {

using cache::DiskCache;

void print_list_json(DiskCache& disk) {
  auto entries = nlohmann::ordered_json::array();
  for (const cache::ListedEntry& e : disk.list()) {
    nlohmann::ordered_json entry = {{"key", to_string(e.key)}};
    if (e.problem.empty()) {
      entry["kernel"] = e.entry.metadata.kernel;
      entry["target"] = e.entry.metadata.target;
      entry["config"] = e.entry.metadata.config;
      entry["bytes"] = e.entry.file_bytes;
      entry["last_used"] = e.entry.last_used;
    } else {
      entry["problem"] = e.problem;
    }
    entries.push_back(std::move(entry));
  }
  nlohmann::ordered_json json = {{"folder", disk.folder().string()},
                                 {"limit_bytes", disk.limits().bytes},
                                 {"entries", std::move(entries)}};
  // The text of an entry comes from a file and may contain any bytes; JSON is printed nonetheless.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int finish(const cache::CommandResult& result) {
  fmt::print("{}", result.text);
  return result.exit_code;
}

int run_subcommand(const Command& command, int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  std::string name = command.name;
  words[0] = name.data();
  words.push_back(nullptr);
  return command.run(argc, words.data());
}

int run_cache(int argc, char** argv) {
  CLI::App app("Manages the compiled kernels on disk (KILN_CACHE_DIR, by default $XDG_CACHE_HOME/kiln "
               "or ~/.cache/kiln).",
               "kiln cache");
  app.require_subcommand(1);
  bool json = false, keep = false;
  CLI::App* ls = app.add_subcommand("ls", "list the entries, most recently used first");
  ls->add_flag("--json", json, "print JSON");
  CLI::App* clear = app.add_subcommand("clear", "remove every entry");
  CLI::App* verify = app.add_subcommand("verify", "read every entry and remove those that are damaged");
  verify->add_flag("--keep", keep, "leave damaged entries where they are");
  for (const Command* command : subcommands("cache")) {
    const char* name = std::strchr(command->name, ' ') + 1;
    if (argc > 1 && argv[1] == std::string_view(name)) return run_subcommand(*command, argc - 1, argv + 1);
    app.add_subcommand(name, command->summary);
  }
  if (argc > 1 && *argv[1] != '-' &&
      app.get_subcommands([&](CLI::App* s) { return s->get_name() == argv[1]; }).empty()) {
    std::string names;
    for (const CLI::App* subcommand : app.get_subcommands([](CLI::App*) { return true; }))
      names += (names.empty() ? "" : ", ") + subcommand->get_name();
    fmt::print(stderr, "kiln cache: there is no subcommand \"{}\"; choose among {}\n", argv[1], names);
    return wrong_usage;
  }
  if (auto code = parse(app, argc, argv)) return *code;
  DiskCache& disk = DiskCache::standard();
  if (disk.folder().empty())
    throw UserError(
        "the cache is off: there is no folder for it; set KILN_CACHE_DIR, XDG_CACHE_HOME or HOME");
  if (*clear) return finish(clear_command(disk));
  if (*verify)
    return finish(verify_command(disk, keep ? cache::BadEntries::keep : cache::BadEntries::remove));
  if (!json) return finish(ls_command(disk));
  print_list_json(disk);
  return 0;
}

const CommandRegistration cache_command({"cache", "lists, clears, verifies or warms compiled kernels on disk",
                                         run_cache});

} // namespace
} // namespace kiln::cli
