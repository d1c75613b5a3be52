// The folder that a tuner's processes share.
#pragma once

#include <string>

namespace kiln::tune {

// A new one in TMPDIR or /tmp, kiln-tune- and six letters, which this locks while it lives and then removes.
// Where a tuner and all its processes are killed at once it stays; the next tuner of the user removes it.
class WorkFolder {
public:
  WorkFolder(); // TargetError if it cannot be made
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

private:
  std::string path_;
  int lock_ = -1;
};

} // namespace kiln::tune
