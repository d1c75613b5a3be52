// Whether a test runs under a sanitizer, which slows it down and moves its memory.
#pragma once

namespace kiln::test {

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

} // namespace kiln::test
