// What goes wrong on purpose in a trial: how the tuner's tests see that it survives.
#pragma once

#include <kiln/dsl/dtype.h>

#include <string>
#include <vector>

namespace kiln::tune {

// Each does something for the faults that are its own (see Faults in live_measurer.h), nothing for others.
void inject_before_compiling(const std::string& fault);
void inject_before_launching(const std::string& fault);
void inject_into_output(const std::string& fault, std::vector<unsigned char>& bytes, DType dtype);

} // namespace kiln::tune
