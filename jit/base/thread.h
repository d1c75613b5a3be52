// A thread that Kiln owns: no signals, a name, and a handle that fork can drop. Not for users.
#pragma once

#include <pthread.h>

namespace kiln {

// Starts `body(argument)` on a thread that takes no signals. False if the system refuses one.
bool start_thread(pthread_t& handle, void* (*body)(void* argument), void* argument, const char* name);

// Binds a thread to one CPU; a refusal is harmless and ignored.
void pin_thread(pthread_t handle, int cpu);

// The calling thread no longer takes a CPU from the thread that wakes it while another CPU, or that one a
// little later, will do. Threads that it starts are as others are. A refusal is harmless and ignored.
void yield_to_wakers();

} // namespace kiln
