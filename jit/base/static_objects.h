// What is done when the program ends.
#pragma once

namespace kiln {

// As std::atexit, which does nothing in the shared library: no static object of it is destroyed.
void call_at_exit(void (*function)());

} // namespace kiln
