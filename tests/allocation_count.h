// Counts heap allocations, for tests of code that must not allocate.
#pragma once

// The number of calls of operator new that this thread has made so far.
long allocation_count();
