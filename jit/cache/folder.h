// Finds and opens the cache folder, and refuses a folder into which another user could put code.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kiln::cache {

// KILN_CACHE_DIR, or else $XDG_CACHE_HOME/kiln, or else $HOME/.cache/kiln; empty if none of the three is set.
// A relative XDG_CACHE_HOME is ignored. Reads the environment at each call.
std::filesystem::path standard_folder();

// An open folder. Its files are accessed through the descriptor, so the folder that was checked is the folder
// that is used, even if the path changes.
class Folder {
public:
  Folder(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> file_names() const; // in any order; empty if the folder cannot be read

private:
  int descriptor_;
  std::filesystem::path path_;
};

struct OpenFolder {
  std::shared_ptr<const Folder> folder; // null if the folder is missing or refused
  std::string problem;                  // why it is refused and what to do; empty if it is only missing
  std::string why;                      // the same without the advice to choose another folder
  bool passing = false;                 // no file descriptor was left; a later attempt may succeed
};

enum class IfMissing { create, leave }; // folders are created with mode 0700

// Symbolic links are followed, and the folder that they lead to is checked.
OpenFolder open_folder(const std::filesystem::path& path, IfMissing if_missing);

} // namespace kiln::cache
