// The sanitizers' defaults in programs of Kiln; part of every program that is built with them.
// Containers that Kiln fills and LLVM, which is not instrumented, grows (or the other way round) look
// overflown to the address sanitizer.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_container_overflow=0:strict_init_order=1"; }
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "second_deadlock_stack=1"; }
