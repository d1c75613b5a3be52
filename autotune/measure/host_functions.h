// Lets a worker call functions of the tuner's process: those with which a user computes or compares outputs.
//
// The worker writes the arrays to files in the tuner's folder and sends {ask}; the tuner calls the function,
// writes its outputs to the files, and replies.
#pragma once

#include <kiln/autotune/measure/loaded_candidate.h>
#include <kiln/autotune/measure/message.h>

#include <functional>
#include <string>

namespace kiln::tune {

// Sends a message to the tuner and returns its reply.
using Ask = std::function<Message(const Message&)>;

// In the worker: makes the functions of the situation ask the tuner. `message` is the setup message.
void ask_for_functions(Situation& situation, const Message& message, const std::string& folder,
                       const Ask& ask);

// In the tuner: says in a setup message which functions there are, and answers a question of a worker.
void announce_functions(Message& setup, const Workload& workload);
Message answer_for_functions(const Workload& workload, const Message& question);

} // namespace kiln::tune
