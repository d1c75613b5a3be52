// Reads and writes the files of measured machines, one per kind of device, in a folder next to the records.
//
// A folder that is missing, rejected or not writable is not an error.
#pragma once

#include <kiln/autotune/analytic/machine.h>

#include <optional>

namespace kiln::tune {

std::optional<Machine> kept_machine(Device device, const std::filesystem::path& folder);
void keep_machine(const Machine& machine, Device device, const std::filesystem::path& folder);

} // namespace kiln::tune
