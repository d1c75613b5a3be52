// What a kind of device does with a lowered kernel; compile.cpp does the rest. Not for users.
#pragma once

#include <kiln/jit/base/options.h>
#include <kiln/jit/cache/hash.h>
#include <kiln/jit/runtime/kernel/compile.h>

#include <span>

namespace kiln {

// A kernel on its way to code, on any device.
struct Compilation {
  std::unique_ptr<ir::Kernel> lowered;
  std::string text; // of `lowered`, canonical: what the code is a function of, with the config
  Config config;
  bool debug;
  KeepFiles keep;
};
// Verifies, binds and lowers; UserError for a config that does not fit.
Compilation lower(const ir::Kernel& recorded, const Config& config, const std::vector<LayoutClass>& layouts);

// An error about a kernel as a whole, with the line where it was made; others have one already.
UserError with_place(const UserError& e, SourceLocation where, const std::string& kernel);

// The files of KILN_KEEP for one compilation: "kiln-keep/softmax-1a2b3c4d" and a suffix.
class KeptFiles {
public:
  KeptFiles(const Compilation& c, const cache::Key& key);
  void write(bool wanted, const char* suffix, std::string_view text) const;

private:
  std::string stem_;
};

// Code as the cache on disk keeps it.
struct StoredCode {
  cache::Key key;
  std::vector<char> payload;
  std::string target; // "znver5", "sm_90a"
};

// Of one compilation, which outlives it.
class Backend {
public:
  virtual ~Backend() = default;
  // Under which keys the cache on disk may have the code, best first; at least one.
  virtual std::vector<cache::Key> keys() = 0;
  // Makes a payload of the cache ready to run. TargetError if it does not work here.
  virtual void load(std::span<const char> payload, CompiledKernel& into) = 0;
  // Compiles, keeps the files that are asked for, and makes the code ready to run.
  virtual StoredCode compile(CompiledKernel& into) = 0;
};

// UserError for a kernel or config that the device cannot have.
std::unique_ptr<Backend> make_cpu_backend(const Compilation& c, Device device);
std::unique_ptr<Backend> make_cuda_backend(const Compilation& c, Device device);
std::unique_ptr<Backend> make_emulated_backend(const Compilation& c, Device device);

} // namespace kiln
