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
  friend std::shared_ptr<LoadedCode> load_object(std::span<const char>, const std::string&);
  LoadedCode() = default;
  EntryPoint entry_ = nullptr;
  void* library_ = nullptr; // the JITDylib
};

// TargetError if the object cannot be linked (a damaged cache entry gets caught by its checksum before).
std::shared_ptr<LoadedCode> load_object(std::span<const char> object, const std::string& name);

} // namespace kiln::cpu
