// Loads object files into the process and finds their entry points.
#pragma once

#include <kiln/jit/cpu/abi.h>

#include <memory>
#include <span>
#include <string>

namespace kiln::cpu {

// Code in this process; freed with the last owner. Thread-safe to create and to call.
class LoadedCode {
public:
  ~LoadedCode();
  EntryPoint entry() const { return entry_; }

private:
  friend std::shared_ptr<LoadedCode> load_objects(std::span<const std::span<const char>>, const std::string&);
  LoadedCode() = default;
  EntryPoint entry_ = nullptr;
  void* library_ = nullptr; // the JITDylib
};

// Links a kernel's objects with each other: one has the entry point, others have routines that it calls. All
// are copied. TargetError if they cannot be linked (a damaged cache entry gets caught by its checksum
// before).
std::shared_ptr<LoadedCode> load_objects(std::span<const std::span<const char>> objects,
                                         const std::string& name);
inline std::shared_ptr<LoadedCode> load_object(std::span<const char> object, const std::string& name) {
  return load_objects({&object, 1}, name);
}

} // namespace kiln::cpu
