// A cache folder of a test's own, so that it finds no records of other runs and leaves none.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

// The first one of a process holds for all of it: the store is opened once.
class OwnCache {
public:
  OwnCache() {
    static const Folder folder;
    path_ = folder.path;
  }
  const std::filesystem::path& path() const { return path_; }

private:
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name = (std::filesystem::temp_directory_path() / "kiln-tuned-XXXXXX").string();
      path = mkdtemp(name.data());
      setenv("KILN_CACHE_DIR", path.c_str(), 1);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  std::filesystem::path path_;
};
