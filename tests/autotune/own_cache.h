// A cache folder of a test's own, so that it finds no records of other runs and leaves none.
#pragma once

#include "temporary_folder.h"

#include <kiln/autotune/records/store.h>

#include <cstdlib>
#include <stdexcept>

// The first one of a process holds for all of it: the store is opened once. What opens it, if only to look,
// has one.
class OwnCache {
public:
  OwnCache() : path_(folder().path()) {
    if (kiln::tune::RecordStore::standard().path() != kiln::tune::RecordStore::standard_folder())
      throw std::logic_error("a test before this one opened the store of records without a cache of its own");
  }
  const std::filesystem::path& path() const { return path_; }

private:
  static const kiln::test::TemporaryFolder& folder() {
    static const kiln::test::TemporaryFolder made;
    setenv("KILN_CACHE_DIR", made.path().c_str(), 1);
    return made;
  }
  const std::filesystem::path& path_;
};
