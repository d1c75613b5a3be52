// One LLJIT for the process; each object gets a library of its own, so that it can be freed.
#include <kiln/jit/cpu/engine.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/cpu/hooks.h>
#include <kiln/jit/cpu/target.h>

#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>

namespace kiln::cpu {

namespace {

[[noreturn]] void fail(const std::string& doing, llvm::Error error) {
  throw TargetError(doing + ": " + llvm::toString(std::move(error)));
}

template <class T> T take(const std::string& doing, llvm::Expected<T> value) {
  if (!value) fail(doing, value.takeError());
  return std::move(*value);
}

llvm::orc::LLJIT& process_jit() {
  // Never destroyed: kernels held by static objects may outlive any order of destruction.
  static llvm::orc::LLJIT* jit = [] {
    host_target(); // initialises LLVM
    auto made = take("cannot start LLVM's JIT", llvm::orc::LLJITBuilder().create()).release();
    llvm::orc::SymbolMap hooks;
    auto add = [&](const char* name, auto* function) {
      hooks[made->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                            llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    add(assert_hook, &kiln_hook_assert);
    add(print_hook, &kiln_hook_print);
    if (auto error = made->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(hooks))))
      fail("cannot define hooks", std::move(error));
    return made;
  }();
  return *jit;
}

} // namespace

std::shared_ptr<LoadedCode> load_object(std::span<const char> object, const std::string& name) {
  static std::atomic<std::uint64_t> count{0};
  llvm::orc::LLJIT& jit = process_jit();
  std::string library_name = name + "." + std::to_string(count.fetch_add(1));
  auto made = jit.createJITDylib(library_name);
  if (!made) fail("cannot load kernel " + name, made.takeError());
  llvm::orc::JITDylib& library = *made;
  library.addToLinkOrder(jit.getMainJITDylib()); // the hooks, and through it the process's symbols
  std::shared_ptr<LoadedCode> code(new LoadedCode);
  code->library_ = &library;
  auto buffer =
      llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), library_name);
  if (auto error = jit.addObjectFile(library, std::move(buffer)))
    fail("cannot load kernel " + name, std::move(error));
  code->entry_ = take("cannot link kernel " + name, jit.lookup(library, entry_name)).toPtr<EntryPoint>();
  return code;
}

LoadedCode::~LoadedCode() {
  auto& library = *static_cast<llvm::orc::JITDylib*>(library_);
  // An error while unloading leaves the code in memory, which is harmless.
  llvm::consumeError(library.getExecutionSession().removeJITDylib(library));
}

} // namespace kiln::cpu
