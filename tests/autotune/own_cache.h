// Gives a test process its own cache folder, so that it finds no records of other runs and leaves none.
#pragma once

#include "temporary_folder.h"

#include <kiln/autotune/records/store.h>

#include <cstdlib>
#include <stdexcept>

// The first OwnCache of a process is valid for the whole process, since the store is opened only once. Every
// test that opens the store, even only for reading, must have an OwnCache.
class OwnCache {
public:
  OwnCache() : path_(folder().path()) {
    if (kiln::tune::RecordStore::standard().path() != kiln::tune::RecordStore::standard_folder())
      throw std::logic_error("an earlier test opened the record store without an OwnCache");
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
