#pragma once
// Tells one state of the code generators from another, in keys of compiled code. Made by the build from their
// sources, so that nobody who edits one meets kernels an older state left in the cache, which later parts of
// a launch would misjudge.

namespace kiln::cache {
extern const char source_digest[]; // SHA-256 of the sources of passes and emitters, in hexadecimal
} // namespace kiln::cache
