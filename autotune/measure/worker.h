// Runs the process that compiles and runs candidates for a tuner: `kiln tune-worker`.
//
// Only LiveMeasurer starts it, with the descriptors of worker_process.h. It processes one message after
// another until the socket closes; it then removes the tuner's folder, since the tuner is gone.
//
//   setup     {role, device, arguments, seed, tolerance, outputs, timing, reference, oracle}: what all trials
//             have in common; the process that runs candidates also launches the reference, or what it is
//             compared with, and keeps the outputs
//   compile   {candidate}: compiles it into the cache folder
//   run       {candidate, best}: loads the code from the cache folder, checks it and times it
//   confirm   {candidates, seconds}: checks each, and times them in alternation
//   verify    {candidate, twist, seconds}: compares it with the reference on inputs that no trial had
//   interpret {candidate}: compares the device's outputs with those of the interpreter of tile IR
//
// If the user gave functions that compute or compare outputs, the worker asks the tuner to call them
// (host_functions.h).
//
// A candidate is {ir, config, grid, fault}. Every answer is one message; before it, run, confirm and verify
// send {stage} when a new deadline begins. With an oracle, setup sends {stage, running}, which names what is
// launched next.
//
// A candidate is checked each time before it is timed: its outputs are filled with a pattern, it is launched,
// and its outputs are compared with the reference's (compare.h). This is repeated with another pattern, so
// that an element that is not written cannot be right by chance. Blocks that are both read and written get
// their initial contents before each of these launches; but if the default does not need the initial contents
// of ignored outputs, two more launches find there what the one before has left. The bytes around all arrays and
// the inputs must not change; on the CPU the arrays lie between pages that fault. After timing, the
// surrounding bytes and the inputs are checked again, and small problems are launched and compared more
// often, to find races.
#pragma once

namespace kiln::tune {

// Works for the process `tuner`, which has started this one, until that ends. Returns the exit code.
int run_worker(const char* folder, int tuner);

} // namespace kiln::tune
