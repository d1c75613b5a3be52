// Finds and opens the cache folder, and refuses one that another user could put code into.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kiln::cache {

// KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln; empty if none of the three is set.
// As the XDG specification asks, a relative XDG_CACHE_HOME is ignored.
std::filesystem::path standard_folder();

// An open folder. All files in it are reached through the descriptor: the folder that was checked stays the
// folder that is used, whatever happens to the path.
class Folder {
public:
  Folder(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> file_names() const; // in no order; empty if the folder cannot be read

private:
  int descriptor_;
  std::filesystem::path path_;
};

struct OpenFolder {
  std::shared_ptr<const Folder> folder; // null if it is missing or refused
  std::string problem;                  // why it is refused and what to do; empty if it is merely missing
  std::string why;                      // the same without the advice to choose another cache folder
};

enum class IfMissing { create, leave }; // folders are created with mode 0700

// A symbolic link is followed, and what it leads to is judged.
OpenFolder open_folder(const std::filesystem::path& path, IfMissing if_missing);

} // namespace kiln::cache
