// The arguments of a launch, for a problem of other sizes: what records of it teach is told from these.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <vector>

namespace kiln::tune {

// `words` of a launch of `before` (dsl/ir/arguments.h), as they would be for `after`, whose sizes are those
// words: `size_words[i]` has the i-th one. Other extents and integers follow the size that they are equal to;
// contiguous views stay contiguous, others keep their strides. UserError where one is equal to several sizes
// that differ afterwards, or where the problems' sizes are not the same by name.
std::vector<std::uint64_t> resized_words(const ir::Kernel& kernel, std::vector<std::uint64_t> words,
                                         const std::vector<int>& size_words, const Problem& before,
                                         const Problem& after);

} // namespace kiln::tune
