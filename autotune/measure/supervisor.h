// Splits a worker into the process that runs candidates and its supervisor, which reports how it ended.
//
// The tuner cannot rely on waitpid for this, because the program that it is part of may ignore SIGCHLD or
// call waitpid for all of its child processes itself.
#pragma once

namespace kiln::tune {

// Forks, and returns in the child, which is killed if the supervisor is. The calling process becomes
// the supervisor: it waits for the child, writes the child's status, as waitpid gives it, to the descriptor
// worker_status, and ends with all of its process group. It also ends if the process `tuner`, its parent,
// does. Must be called before the process has other threads.
void continue_supervised(int tuner);

} // namespace kiln::tune
