// Loads objects with one LLJIT per process; each kernel has its own JITDylib, so that it can be freed.
#include <kiln/jit/cpu/object/engine.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/cpu/hooks.h>
#include <kiln/jit/cpu/object/perf_map.h>
#include <kiln/jit/cpu/target.h>

#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/Debugging/ELFDebugObjectPlugin.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include <sys/mman.h>
#include <unistd.h>

namespace kiln::cpu {

namespace {

// What LLVM reported since this thread began to load a kernel. The error that a call returns does not contain
// it.
thread_local std::string reported;

// Whether the system refuses to make memory executable that this process has written; errno is then the
// reason.
bool executable_memory_is_refused() {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false; // no memory at all
  *static_cast<volatile char*>(page) = 0;
  const int refused = mprotect(page, bytes, PROT_READ | PROT_EXEC) != 0 ? errno : 0;
  munmap(page, bytes);
  errno = refused;
  return refused == EACCES || refused == EPERM;
}

[[noreturn]] void fail(const std::string& doing, llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  if (executable_memory_is_refused())
    throw NoExecutableMemory(
        doing + ": the system forbids executable memory in this process (" + std::strerror(errno) +
        "), and kernels for the CPU are machine code that Kiln writes to memory; allow it (SELinux: the "
        "permission "
        "execmem; systemd: MemoryDenyWriteExecute=no; prctl: no PR_SET_MDWE), or launch on another device");
  if (!reported.empty()) text += " (" + reported + ")";
  throw TargetError(doing + ": " + text);
}

template <class T> T take(const std::string& doing, llvm::Expected<T> value) {
  if (!value) fail(doing, value.takeError());
  return std::move(*value);
}

// Announces objects with line info through gdb's JIT interface. LLVM's plugin keeps a copy of every object
// for good, so that objects without line info bypass it. The plugin must then not be notified if such an
// object fails: it would look for data that it does not have, and crash.
class DebugObjects : public llvm::orc::ELFDebugObjectPlugin {
public:
  using ELFDebugObjectPlugin::ELFDebugObjectPlugin;
  using Responsibility = llvm::orc::MaterializationResponsibility;

  void notifyMaterializing(Responsibility& responsibility, llvm::jitlink::LinkGraph& graph,
                           llvm::jitlink::JITLinkContext& context, llvm::MemoryBufferRef object) override {
    if (!graph.findSectionByName(".debug_info")) return;
    {
      const std::lock_guard guard(lock_);
      shown_.insert(&responsibility);
    }
    ELFDebugObjectPlugin::notifyMaterializing(responsibility, graph, context, object);
  }
  llvm::Error notifyEmitted(Responsibility& responsibility) override {
    forget(responsibility);
    return ELFDebugObjectPlugin::notifyEmitted(responsibility);
  }
  llvm::Error notifyFailed(Responsibility& responsibility) override {
    if (!forget(responsibility)) return llvm::Error::success();
    return ELFDebugObjectPlugin::notifyFailed(responsibility);
  }

private:
  bool forget(Responsibility& responsibility) {
    const std::lock_guard guard(lock_);
    return shown_.erase(&responsibility) != 0;
  }

  std::mutex lock_;
  std::unordered_set<const Responsibility*> shown_;
};

void show_to_debuggers(llvm::orc::LLJIT& jit) {
  auto* layer = llvm::dyn_cast<llvm::orc::ObjectLinkingLayer>(&jit.getObjLinkingLayer());
  if (!layer) return;
  llvm::Error error = llvm::Error::success();
  auto plugin = std::make_shared<DebugObjects>(jit.getExecutionSession(), /*RequireDebugSections=*/true,
                                               /*AutoRegisterCode=*/true, error);
  if (error)
    llvm::consumeError(std::move(error)); // kernels run without the plugin
  else
    layer->addPlugin(std::move(plugin));
}

llvm::orc::LLJIT& process_jit() {
  // Never destroyed, since static objects may hold kernels until the process ends.
  static llvm::orc::LLJIT* jit = [] {
    host_target(); // initialises LLVM
    auto made = take("cannot start LLVM's JIT", llvm::orc::LLJITBuilder().create()).release();
    made->getExecutionSession().setErrorReporter([](llvm::Error error) { // instead of writing it to stderr
      reported += (reported.empty() ? "" : "; ") + llvm::toString(std::move(error));
    });
    llvm::orc::SymbolMap hooks;
    auto add = [&](const char* name, auto* function) {
      hooks[made->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                            llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    add(assert_hook, &kiln_hook_assert);
    add(print_hook, &kiln_hook_print);
    add(begin_updates_hook, &kiln_hook_begin_updates);
    add(end_updates_hook, &kiln_hook_end_updates);
    if (auto error = made->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(hooks))))
      fail("cannot define hooks", std::move(error));
    show_to_debuggers(*made);
    return made;
  }();
  return *jit;
}

} // namespace

std::shared_ptr<LoadedCode> load_objects(std::span<const std::span<const char>> objects,
                                         const std::string& name) {
  static std::atomic<std::uint64_t> count{0};
  reported.clear();
  llvm::orc::LLJIT& jit = process_jit();
  std::string library_name = name + "." + std::to_string(count.fetch_add(1));
  auto made = jit.createJITDylib(library_name);
  if (!made) fail("its code cannot be loaded", made.takeError());
  llvm::orc::JITDylib& library = *made;
  library.addToLinkOrder(jit.getMainJITDylib()); // has the hooks, and through it the symbols of the process
  std::shared_ptr<LoadedCode> code(new LoadedCode);
  code->library_ = &library;
  for (std::span<const char> object : objects) {
    auto buffer =
        llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), library_name);
    if (auto error = jit.addObjectFile(library, std::move(buffer)))
      fail("its code cannot be loaded", std::move(error));
  }
  auto find = [&](const std::string& symbol) {
    return take("its code cannot be linked", jit.lookup(library, symbol));
  };
  code->entry_ = find(entry_name).toPtr<EntryPoint>();
  if (options().perf)
    for (std::span<const char> object : objects)
      add_to_perf_map(object, [&](const std::string& symbol) { return find(symbol).getValue(); }, name);
  return code;
}

LoadedCode::~LoadedCode() {
  auto& library = *static_cast<llvm::orc::JITDylib*>(library_);
  // If unloading fails, the code stays in memory, which is harmless.
  llvm::consumeError(library.getExecutionSession().removeJITDylib(library));
}

} // namespace kiln::cpu
