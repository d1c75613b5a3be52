// Declares the loader of object files, which links them in the process and finds their entry points.
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/jit/cpu/abi.h>

#include <memory>
#include <span>
#include <string>

namespace kiln::cpu {

// Code that is loaded in this process; it is freed with its last owner. Creating and calling it is
// thread-safe.
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

// The system forbids executable memory, so that linking other objects would fail, too.
class NoExecutableMemory : public TargetError {
public:
  using TargetError::TargetError;
};

// Links the objects of a kernel with each other: one has the entry point, the others have routines that it
// calls. All are copied. Throws NoExecutableMemory, or another TargetError if they cannot be linked; damaged
// cache entries are rejected earlier, by their checksum.
std::shared_ptr<LoadedCode> load_objects(std::span<const std::span<const char>> objects,
                                         const std::string& name);
inline std::shared_ptr<LoadedCode> load_object(std::span<const char> object, const std::string& name) {
  return load_objects({&object, 1}, name);
}

} // namespace kiln::cpu
