// A cache folder of a test's own, so that it finds no records of other runs and leaves none.
#pragma once

#include "temporary_folder.h"

#include <cstdlib>

// The first one of a process holds for all of it: the store is opened once.
class OwnCache {
public:
  OwnCache() : path_(folder().path()) {}
  const std::filesystem::path& path() const { return path_; }

private:
  static const kiln::test::TemporaryFolder& folder() {
    static const kiln::test::TemporaryFolder made;
    setenv("KILN_CACHE_DIR", made.path().c_str(), 1);
    return made;
  }
  const std::filesystem::path& path_;
};
