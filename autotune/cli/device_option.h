// Parses the option --device.
#pragma once

#include <kiln/jit/runtime/device.h>

#include <string>

namespace kiln::tune {

// Like Device::parse, but a UserError names the option instead of a location in Kiln's sources.
Device device_from_option(const std::string& name);

} // namespace kiln::tune
