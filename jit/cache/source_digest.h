// Identifies the state of the code generators' sources, as a part of the keys of compiled code.
//
// The build computes the digest, so that a change of the sources invalidates cached kernels. Code of another
// state could differ from what the host assumes when it launches a kernel.
#pragma once

namespace kiln::cache {
extern const char source_digest[]; // SHA-256 of the sources of passes and emitters, in hexadecimal
} // namespace kiln::cache
