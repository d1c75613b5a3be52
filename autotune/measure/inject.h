// Injects faults into trials, so that tests can check that the tuner survives them.
#pragma once

#include <kiln/dsl/dtype.h>

#include <string>
#include <vector>

namespace kiln::tune {

// Each function injects the faults of its stage (see Faults in live_measurer.h) and ignores others.
void inject_before_compiling(const std::string& fault);
void inject_before_launching(const std::string& fault);
void inject_into_output(const std::string& fault, std::vector<unsigned char>& bytes, DType dtype);

} // namespace kiln::tune
