// The problem that somebody asks the records about, as the command line names it.
#pragma once

#include <kiln/autotune/records/database.h>

#include <string>

namespace kiln::tune {

struct Question {
  std::string kernel, shape, dtype, kind; // empty: not given
  Device device;
};

// A shape of names, "M=512,N=512", is these sizes, of the given kind. Without names, or with a dtype, it is
// read as `kiln tune` does where that knows the kernel, so that its kind is the one of what that tunes; else
// by the names of the newest record's sizes. UserError for what is neither.
Problem asked_problem(Database& database, const Question& question);

} // namespace kiln::tune
