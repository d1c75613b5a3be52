// The process that compiles and runs candidates for a tuner: `kiln tune-worker`.
//
// It is started by LiveMeasurer alone, with a socket as descriptor 3, and does what messages say, one after
// the other, until the socket closes; then it removes the tuner's folder, since the tuner is gone.
//
//   setup    {role, device, arguments, seed, tolerance, timing, reference}: what all trials have in common.
//   The
//            process that runs launches the reference and keeps its outputs.
//   compile  {candidate}: into the cache folder
//   run      {candidate, best}: loads it from there, checks it and times it
//   confirm  {candidates, seconds}: checks each, and times them by turns
//   verify   {candidate, reference, twist}: compares both on inputs that no trial had
//   interpret {candidate}: compares the device's outputs with those of the interpreter of tile IR
//
// A candidate is {ir, config, grid, fault}. Every answer is one message; before it, run, confirm and verify
// send {stage} where another deadline begins.
//
// How a candidate is checked, each time it is run: outputs are filled with one pattern, launched, compared
// with the reference (compare.h), and again with another pattern, so that what is not written cannot look
// right by chance; what is both read and written has its first contents before each of these launches;
// the bytes around all arrays and the inputs must be as before, and on the CPU lie between pages that fault.
// The same is looked at again after it was timed.
#pragma once

namespace kiln::tune {

// Returns the exit code.
int run_worker(int socket, const char* folder, int parent);

} // namespace kiln::tune
