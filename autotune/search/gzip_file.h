// Whole text files, plain or gzip.
#pragma once

#include <string>

namespace kiln::tune {

// UserError if it cannot be read, is damaged or cut off, or holds more than a gigabyte.
std::string read_gzip_file(const std::string& path);
// Gzip if the name ends in ".gz". The file appears whole or not at all; UserError if it cannot be written.
void write_gzip_file(const std::string& path, const std::string& text);

} // namespace kiln::tune
