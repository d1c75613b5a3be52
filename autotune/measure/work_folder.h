// Creates and removes the folder that a tuner's processes share.
#pragma once

#include <string>

namespace kiln::tune {

// Creates a new folder kiln-tune-XXXXXX in TMPDIR or /tmp, holds a lock on it, and removes it on destruction.
// If a tuner and all its processes are killed at once the folder remains, and a later tuner of the same user
// removes it.
class WorkFolder {
public:
  WorkFolder(); // throws TargetError if it cannot be created
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

private:
  std::string path_;
  int lock_ = -1;
};

} // namespace kiln::tune
