// Searches for the command next to the library, next to the program and on PATH.
#include <kiln/autotune/measure/find_command.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <vector>

#include <unistd.h>

namespace kiln::tune {

namespace fs = std::filesystem;

namespace {

constexpr const char* command_name = "kiln";

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

fs::path this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

// Returns the file that contains this code: the library, or a program that is linked with it statically.
fs::path this_library() {
  Dl_info info{};
  static const char here = 0;
  if (!dladdr(&here, &info) || !info.dli_fname) return {};
  std::error_code ignored;
  fs::path path = fs::canonical(info.dli_fname, ignored);
  return ignored ? fs::path(info.dli_fname) : path;
}

std::vector<fs::path> folders_of_path() {
  std::vector<fs::path> folders;
  const char* variable = std::getenv("PATH");
  std::istringstream in(variable ? variable : "");
  for (std::string folder; std::getline(in, folder, ':');)
    if (!folder.empty()) folders.emplace_back(folder);
  return folders;
}

} // namespace

std::string find_command() {
  if (const std::string given = read_environment().command; !given.empty()) {
    if (is_program(given)) return given;
    throw UserError("KILN_COMMAND is " + given +
                    ", which is not an executable file; set it to the path of the kiln command");
  }
  const fs::path program = this_program();
  if (program.filename() == command_name && is_program(program)) return "/proc/self/exe";
  std::vector<fs::path> candidates;
  for (const fs::path& file : {this_library(), program}) {
    if (file.empty()) continue;
    candidates.push_back(file.parent_path() / command_name);
    candidates.push_back((file.parent_path().parent_path() / "bin") / command_name);
  }
  std::string looked;
  for (const fs::path& candidate : candidates) {
    if (is_program(candidate)) return candidate.string();
    if (looked.find(candidate.string() + ",") == std::string::npos) looked += candidate.string() + ", ";
  }
  for (const fs::path& folder : folders_of_path())
    if (is_program(folder / command_name)) return (folder / command_name).string();
  throw UserError("measuring needs the kiln command, which was not found at " + looked +
                  "or on PATH; install it next to the library, or set KILN_COMMAND to its path");
}

} // namespace kiln::tune
