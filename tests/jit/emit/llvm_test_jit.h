// Compiles LLVM modules that tests build, for the host or another CPU, and looks up their functions.
//
//   TestJit jit({.features = "-avx512f"});
//   jit.add([&](llvm::Module& module) { ... });        // its triple and data layout are set
//   auto* f = jit.lookup<void(const float*, float*, std::int64_t)>("f");
#pragma once

#include <functional>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <memory>
#include <string>

namespace kiln::test {

struct TestTarget {
  std::string cpu = "host";    // one that runnable_target in other_cpus.h knows
  std::string features = {};   // additional ones, such as "+fma,-avx512f"
  bool process_symbols = true; // whether the code may call functions of this program and its libraries
};

class TestJit {
public:
  explicit TestJit(const TestTarget& target = {});
  ~TestJit();

  const llvm::TargetMachine& target_machine() const { return *target_machine_; }
  // Builds, verifies, lightly optimises and adds one module; throws on an error.
  void add(const std::function<void(llvm::Module&)>& build);
  template <class F> F* lookup(const std::string& name) { return reinterpret_cast<F*>(address(name)); }
  // The assembly of the last module added.
  const std::string& assembly() const { return assembly_; }

private:
  std::uint64_t address(const std::string& name);

  std::unique_ptr<llvm::TargetMachine> target_machine_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::string assembly_;
};

// Emits `void name(const In* x, const In* y, Out* out, i64 vectors)`: a loop that loads vectors of `lanes`
// elements from x and y, passes them to the code of `body`, and stores the result.
void emit_elementwise_loop(
    llvm::Module& module, const std::string& name, llvm::Type* in, llvm::Type* out, unsigned lanes,
    const std::function<llvm::Value*(llvm::IRBuilder<>&, llvm::Value* x, llvm::Value* y)>& body);

} // namespace kiln::test
