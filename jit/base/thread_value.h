// One value for each thread, even while the program ends: destructors of static objects may launch kernels
// after the thread_local objects of the main thread are gone.
#pragma once

namespace kiln {

// The calling thread's T, the same for the same Tag. Destroyed with the thread; one that is asked for after
// that is never destroyed.
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
