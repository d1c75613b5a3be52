// Counts heap allocations, for tests that promise none.
#pragma once

// Calls of operator new by this thread so far.
long allocation_count();
