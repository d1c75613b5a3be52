// Finds what the next launches of a kernel find in the arrays that it both reads and writes.
//
// Trials give such arrays their initial contents before each launch. A config may be right with these alone,
// if the kernel keeps an epoch, a counter or a semaphore from one launch to the next. It is therefore also
// compared with the reference where each launch begins with what the reference's last launch has left:
//
//   launch    contents before           compared
//   1         as given                  in the trials
//   2         left by the reference     when a winner is verified
//   3         left by the reference
//
// Both begin a launch with equal contents, so that rounding errors do not grow from one launch to the next.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/output_check.h>

#include <vector>

namespace kiln::tune {

// Marks the blocks that the kernel reads and writes. Those that must stay as given are not among them, nor are
// those with ignored outputs, since check() keeps what a candidate has left there (checker.h). None is marked if the contents of one decide on
// loops: a kernel that waits for a semaphore might wait forever unless the application resets it.
std::vector<bool> updated_blocks(const std::vector<Argument>& arguments,
                                 const std::vector<OutputCheck>& outputs, const MemoryPlan& plan,
                                 const ir::Kernel& kernel);

// Whether a launch that begins with `next` is worth comparing: something differs from `last`, and no more
// floats are NaN or infinite.
bool is_another_state(const MemoryPlan& plan, const std::vector<bool>& updated, const Contents& last,
                      const Contents& next);

} // namespace kiln::tune
