// Provides thread-local values that stay usable while the program ends: destructors of static objects may
// launch kernels after the thread_local objects of the main thread have been destroyed.
#pragma once

namespace kiln {

// Returns the calling thread's T for this Tag. It is destroyed when the thread ends; a value that is first
// used after that is never destroyed.
template <class T, class Tag> T& thread_value() {
  thread_local constinit T* value = nullptr;
  struct Owner {
    ~Owner() {
      delete value;
      value = nullptr;
    }
  };
  if (!value) {
    value = new T;
    thread_local Owner owner;
  }
  return *value;
}

} // namespace kiln
