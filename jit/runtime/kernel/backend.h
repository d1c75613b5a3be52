// Declares the interface between compile.cpp and the code generators of the three kinds of device. Internal.
#pragma once

#include <kiln/jit/base/options.h>
#include <kiln/jit/cache/hash.h>
#include <kiln/jit/runtime/kernel/compile.h>

#include <span>

namespace kiln {

// A lowered kernel and what code generation needs besides.
struct Compilation {
  std::unique_ptr<ir::Kernel> lowered;
  std::string text; // of `lowered`, in canonical form. It and the config determine the code.
  Config config;
  bool debug;
  KeepFiles keep;
};
// Verifies, binds and lowers a kernel. UserError for a config that does not fit it.
Compilation lower(const ir::Kernel& recorded, const Config& config, const std::vector<LayoutClass>& layouts);

// Adds the kernel's location to an error about the kernel as a whole. Errors that have a location stay as
// they are.
UserError with_place(const UserError& e, SourceLocation where, const std::string& kernel);

// Writes the files of KILN_KEEP for one compilation. Their names are "kiln-keep/softmax-1a2b3c4d" and a
// suffix.
class KeptFiles {
public:
  KeptFiles(const Compilation& c, const cache::Key& key);
  void write(bool wanted, const char* suffix, std::string_view text) const;

private:
  std::string stem_;
};

// Code as it is stored in the kernel cache.
struct StoredCode {
  cache::Key key;
  std::vector<char> payload;
  std::string target; // "znver5", "sm_90a"
};

// Generates code for one compilation, which must outlive it.
class Backend {
public:
  virtual ~Backend() = default;
  // The keys under which the kernel cache may have the code, best first. There is at least one.
  virtual std::vector<cache::Key> keys() = 0;
  // Makes a payload of the cache ready to run. TargetError if it does not work on this device.
  virtual void load(std::span<const char> payload, CompiledKernel& into) = 0;
  // Compiles, writes the files of KILN_KEEP, and makes the code ready to run.
  virtual StoredCode compile(CompiledKernel& into) = 0;
};

// UserError for a kernel or config that the device does not support.
std::unique_ptr<Backend> make_cpu_backend(const Compilation& c, Device device);
std::unique_ptr<Backend> make_cuda_backend(const Compilation& c, Device device);
std::unique_ptr<Backend> make_emulated_backend(const Compilation& c, Device device);

} // namespace kiln
