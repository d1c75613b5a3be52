// Implements KILN_KEEP=tile for kernels that tests record without a launch.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/base/options.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace kiln::test {

// Writes the file that a launch would write, with layout class `any` for all views. Thread-safe.
inline void keep_kernel(const ir::Kernel& recorded, const Config& config) {
  if (!options().keep.tile) return;
  std::string layouts;
  for (const auto& arg : recorded.body.args)
    if (arg->type.is_view()) layouts += layouts.empty() ? "any" : ", any";
  const std::string text =
      "// config " + config.to_string() + "\n// layouts " + layouts + "\n" + ir::print(recorded);
  std::filesystem::create_directories(options().keep_dir);
  std::ofstream(options().keep_dir + "/" + recorded.name + "-" +
                std::to_string(std::hash<std::string>()(text)) + ".kir")
      << text;
}

} // namespace kiln::test
