// What the tuner knows for a launch of an op: configs that `kiln tune` found, or that came with the program.
#pragma once

#include <kiln/jit/runtime/assign/overlap.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/detail/stream_at.h>

#include <initializer_list>
#include <optional>

namespace kiln::ops::detail {

// The config of a tunable kernel (`kiln tune --list`) for these sizes, in its order, and these views; nothing
// where none is known. Asks what the mode (autotune/mode.h, KILN_TUNE) lets it ask: `off` and `analytic`
// nothing, `pinned` wisdom files alone, where a miss is a UserError at the caller's line, and `tune` and
// `online` search what is not known, at once, which takes as long as `kiln tune` does, or in the background.
// Thread-safe; what was asked before takes well under a microsecond.
std::optional<Config> known_config(const char* kernel, DType dtype, const StreamAt& at,
                                   std::initializer_list<std::int64_t> sizes,
                                   std::initializer_list<kiln::detail::StridedArray> views);

// The same of a kernel on rows, else row_config's choice.
RowConfig known_row_config(const char* kernel, DType dtype, const StreamAt& at, std::int64_t rows,
                           std::int64_t columns, std::int64_t bytes,
                           std::initializer_list<kiln::detail::StridedArray> views);

} // namespace kiln::ops::detail
