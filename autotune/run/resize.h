// Computes the arguments of a launch for other problem sizes, so that records of other problems can be used.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <vector>

namespace kiln::tune {

// `words` are the arguments of a launch of problem `before` (dsl/ir/arguments.h); returns them as they would
// be for problem `after`. `size_words[i]` is the index of the word that holds the i-th size. Each other
// extent or integer changes with the size that it equals. Contiguous views stay contiguous; other views keep
// their strides. Throws UserError if a value equals several sizes that change differently, or if the names of
// the sizes differ.
std::vector<std::uint64_t> resized_words(const ir::Kernel& kernel, std::vector<std::uint64_t> words,
                                         const std::vector<int>& size_words, const Problem& before,
                                         const Problem& after);

} // namespace kiln::tune
