// Defines NewFile, a file that gets its name when it is complete.
//
//   NewFile file("out/report.html", {.what = "the report"});
//   file.append(text.data(), text.size());
//   file.finish();                                   // now its contents are on the disk
//   file.publish();                                  // now it has its name
//
// If the disk is full, or the process is killed at any moment, a previous file of that name stays as it is.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace kiln {

class NewFile {
public:
  struct Words { // of errors: "the report PATH cannot be written: No space left on device; ..."
    std::string what = {}, fix = {}; // each may be empty
  };
  // Writes to a temporary file next to the path. If the path is a symbolic link, the link stays and its
  // target is replaced. A pipe or a terminal is written directly. Errors are UserErrors.
  explicit NewFile(std::string path) : NewFile(std::move(path), Words()) {}
  NewFile(std::string path, Words words);
  ~NewFile(); // removes a file that was not published
  NewFile(const NewFile&) = delete;

  void append(const void* data, std::int64_t bytes);
  void finish();  // writes all of it to the disk, and closes it
  void publish(); // gives it its name; a file of that name is replaced

private:
  [[noreturn]] void fail() const;

  const std::string path_;
  const Words words_;
  std::string target_, temporary_; // equal if the path is written directly
  int descriptor_ = -1;
  bool published_ = true; // or there is nothing to publish or remove
};

} // namespace kiln
