// Creates the folders that save_repro writes.
#include <kiln/jit/runtime/kernel/repro.h>

#include <kiln/jit/base/file_stem.h>
#include <kiln/jit/base/options.h>

#include <filesystem>
#include <fstream>

namespace kiln {

namespace fs = std::filesystem;

namespace {

constexpr int most_folders = 1000; // with the same name, so that a program in a loop does not fill the disk

} // namespace

std::string save_repro(std::string_view name, const std::vector<ReproFile>& files) {
  const std::string stem = file_stem(name);
  fs::path parent = options().keep_dir;
  std::error_code error;
  fs::create_directories(parent, error);
  fs::path folder;
  bool made = false;
  for (int i = 0; i < most_folders && !made && !error; ++i) {
    folder = parent / ("repro-" + stem + (i ? "-" + std::to_string(i) : ""));
    made = fs::create_directory(folder, error);
  }
  if (!made)
    return "not saved: cannot make a folder in " + parent.string() +
           (error ? " (" + error.message() + ")" : "") + ", check KILN_KEEP_DIR";
  for (const ReproFile& file : files) {
    std::ofstream out(folder / file.name, std::ios::binary);
    out.write(file.contents.data(), static_cast<std::streamsize>(file.contents.size()));
    if (!out) return "not saved: cannot write " + (folder / file.name).string() + ", check KILN_KEEP_DIR";
  }
  return "saved in " + folder.string();
}

} // namespace kiln
