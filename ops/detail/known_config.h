// Looks up the config for a launch of an op among those that `kiln tune` found or that came with the program.
#pragma once

#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/detail/stream_at.h>

#include <initializer_list>
#include <optional>

namespace kiln::ops::detail {

// The config of a tunable kernel (one of `kiln tune --list`) for these sizes, which are in the order of its
// problem, and for the layout classes of these arrays. Empty if no config is known, or if the arrays are not
// all of one dtype, for which the tuner keeps configs.
//
// The mode (KILN_TUNE, see autotune/mode.h) decides where it looks. With `off` and `analytic` it does not
// look. With `pinned` it looks in wisdom files only, and a missing config is a UserError with the line of the
// call. With `tune` it searches for a missing config at once, which takes as long as `kiln tune` does; with
// `online` it searches in the background. Thread-safe. A look-up that was made before takes well under a
// microsecond.
std::optional<Config> known_config(const char* kernel, const StreamAt& at,
                                   std::initializer_list<std::int64_t> sizes,
                                   std::initializer_list<const Array*> arrays);

// The same for a kernel on rows, of which the first array is the one that is read. If no config is known, it
// returns the one of row_config. `compute` is the dtype in which the op computes. With `batch_invariant`, the
// config does not depend on the number of rows, so that it is that of row_config; so is it without a kernel.
RowConfig known_row_config(const char* kernel, const StreamAt& at, DType compute,
                           std::initializer_list<const Array*> arrays, bool batch_invariant);

} // namespace kiln::ops::detail
