// Starts and configures threads that Kiln owns. Internal.
#pragma once

#include <pthread.h>

namespace kiln {

// Starts a thread that calls `body(argument)` and blocks all signals. False if the system refuses.
bool start_thread(pthread_t& handle, void* (*body)(void* argument), void* argument, const char* name);

// Binds a thread to one CPU. Kiln works without it, so a refusal is ignored.
void pin_thread(pthread_t handle, int cpu);

// After this call, the calling thread does not preempt the thread that wakes it: it runs on another CPU, or
// on this one as soon as the scheduler switches (SCHED_BATCH). Threads that it starts have the normal policy.
// A refusal is ignored.
void yield_to_wakers();

} // namespace kiln
