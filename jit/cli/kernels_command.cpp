// Implements `kiln kernels`: lists the registered kernels.
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::cli {

namespace {

int run_kernels(int argc, char** argv) {
  CLI::App app("Lists the registered kernels, whose names other commands accept.", "kiln kernels");
  bool json = false;
  app.add_flag("--json", json, "print JSON");
  if (auto code = parse(app, argc, argv)) return *code;
  auto list = nlohmann::ordered_json::array();
  for (const RegisteredKernel* kernel : kernels()) {
    if (json)
      list.push_back({{"name", kernel->name},
                      {"summary", kernel->summary},
                      {"config", kernel->config},
                      {"sizes", kernel->sizes},
                      {"parameters", kernel->parameters}});
    else
      fmt::print("{:<24}{}\n{:<24}  config {}\n{:<24}  {}{}{}\n", kernel->name, kernel->summary, "",
                 kernel->config, "", kernel->parameters, *kernel->sizes ? " with " : "", kernel->sizes);
  }
  if (json) fmt::print("{}\n", list.dump(2));
  if (!json && list.empty() && kernels().empty())
    fmt::print("no kernels are registered; `kiln explain FILE.kir` takes tile IR\n");
  return 0;
}

const CommandRegistration kernels_command({"kernels", "lists the registered kernels", run_kernels});

} // namespace
} // namespace kiln::cli
