// Reads and writes whole text files, plain or compressed with gzip.
#pragma once

#include <string>

namespace kiln::tune {

// Throws UserError if the file cannot be read, is damaged or truncated, or holds more than a gigabyte of
// text.
std::string read_gzip_file(const std::string& path);
// Compresses if the name ends in ".gz". Writes the whole file or nothing; throws UserError if it cannot be
// written.
void write_gzip_file(const std::string& path, const std::string& text);

} // namespace kiln::tune
