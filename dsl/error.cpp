// Builds the messages of UserError and InternalError.
#include <kiln/dsl/error.h>

namespace kiln {

std::string to_string(const SourceLocation& location) {
  if (!location) return {};
  return std::string(location.file) + ":" + std::to_string(location.line);
}

UserError::UserError(const SourceLocation& where, std::string_view what)
    : Error(where ? to_string(where) + ": " + std::string(what) : std::string(what)) {}

void internal_error(std::string_view what, std::source_location here) {
  throw InternalError("internal error at " + to_string(SourceLocation(here)) + ": " + std::string(what) +
                      "; please report this with the kernel that shows it");
}

} // namespace kiln
