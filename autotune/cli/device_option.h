// Which device an option means.
#pragma once

#include <kiln/jit/runtime/device.h>

#include <string>

namespace kiln::tune {

// As Device::parse, but a UserError names the option, and no place in Kiln's own sources.
Device asked_device(const std::string& name);

} // namespace kiln::tune
