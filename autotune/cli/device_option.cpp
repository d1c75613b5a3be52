// Parses the option --device, and names the option in errors.
#include <kiln/autotune/cli/device_option.h>

#include <kiln/dsl/error.h>

#include <source_location>

namespace kiln::tune {

Device device_from_option(const std::string& name) {
  const auto here = std::source_location::current();
  try {
    return Device::parse(name, here);
  } catch (const UserError& error) {
    const std::string place = to_string(SourceLocation(here)) + ": ", text = error.what();
    throw UserError("--device " + name + ": " + (text.starts_with(place) ? text.substr(place.size()) : text));
  }
}

} // namespace kiln::tune
