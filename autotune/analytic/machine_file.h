// The files in which measured machines are kept, one for each kind of device, in a folder beside the records.
// A folder that is missing, refused or cannot be written is no error.
#pragma once

#include <kiln/autotune/analytic/machine.h>

#include <optional>

namespace kiln::tune {

std::optional<Machine> kept_machine(Device device, const std::filesystem::path& folder);
void keep_machine(const Machine& machine, Device device, const std::filesystem::path& folder);

} // namespace kiln::tune
