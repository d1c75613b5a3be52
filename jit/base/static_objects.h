// Registers functions that run when the program ends.
#pragma once

namespace kiln {

// Registers `function` as std::atexit does. std::atexit itself has no effect in the shared library: see
// static_objects.cpp.
void call_at_exit(void (*function)());

} // namespace kiln
