// Sets the sanitizers' default options. Every program that is built with sanitizers contains this file.
//
// LLVM is not instrumented. If LLVM grows a container that Kiln fills, or the other way round, the address
// sanitizer reports a container overflow where there is none, so that check is off.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_container_overflow=0:strict_init_order=1"; }
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "second_deadlock_stack=1"; }
