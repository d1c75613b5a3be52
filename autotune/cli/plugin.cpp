// Loads libraries of plug-ins.
#include <kiln/autotune/cli/plugin.h>

#include <kiln/dsl/error.h>

#include <dlfcn.h>

namespace kiln::tune {

void open_plugin(const std::string& path) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return;
  const char* why = dlerror();
  throw UserError(
      "--plugin " + path + ": " + (why ? why : "it cannot be loaded") +
      (path.find('/') == std::string::npos ? "; write ./" + path + " for a file in this folder" : ""));
}

} // namespace kiln::tune
