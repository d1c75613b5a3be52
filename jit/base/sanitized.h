// Defines whether this build has a sanitizer. Tests and the workers of the tuner need to know: a sanitizer is
// slow, reports crashes in its own way, and reserves so much address space for its shadow memory that the
// address space cannot be limited.
#pragma once

namespace kiln {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true, thread_sanitized = false;
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true, thread_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool thread_sanitized = __has_feature(thread_sanitizer);
inline constexpr bool sanitized = __has_feature(address_sanitizer) || thread_sanitized;
#else
inline constexpr bool sanitized = false, thread_sanitized = false;
#endif

} // namespace kiln
