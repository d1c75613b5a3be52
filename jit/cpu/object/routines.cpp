// Clones each routine into a module of its own, and compiles it in another thread.
#include <kiln/jit/cpu/object/routines.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cpu/object/code_generation.h>
#include <kiln/jit/emit/module_text.h>

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace kiln::cpu {

namespace {

using Object = std::vector<char>;
using FutureObject = std::shared_future<Object>;

// The number of objects that are kept. A program has a few dozen, of 2 to 10 KB each; a tuning run may have
// more.
constexpr std::size_t most_kept = 512;

struct Kept {
  std::mutex mutex;
  std::unordered_map<cache::Key, FutureObject> objects;
  std::atomic<std::int64_t> compiled = 0, reused = 0, loaded = 0;
};
Kept& kept() {
  static auto* k = new Kept; // never destroyed, since kernels may be compiled while the process exits
  return *k;
}

// If no thread can be created, the first thread that waits compiles.
constexpr auto by_thread = std::launch::async | std::launch::deferred;

// A routine as LLVM bitcode, which can be passed to another thread.
struct Source {
  std::string name;
  std::string bitcode;
};

// Extracts a routine. It depends on nothing else of its module, so that its bitcode identifies it.
Source source_of(const llvm::Function& routine) {
  llvm::ValueToValueMapTy values;
  auto module = llvm::CloneModule(*routine.getParent(), values,
                                  [&](const llvm::GlobalValue* v) { return v == &routine; });
  Source source{routine.getName().str(), {}};
  module->setModuleIdentifier(source.name);
  module->setSourceFileName(source.name);
  for (llvm::Function& f : llvm::make_early_inc_range(*module))
    if (f.isDeclaration() && f.use_empty()) f.eraseFromParent();
  for (llvm::GlobalVariable& v : llvm::make_early_inc_range(module->globals()))
    if (v.use_empty()) v.eraseFromParent();
  internal_check(module->global_empty(), "a routine uses a global of its kernel");
  module->getFunction(source.name)->setLinkage(llvm::Function::ExternalLinkage);
  llvm::raw_string_ostream stream(source.bitcode);
  llvm::WriteBitcodeToFile(*module, stream);
  return source;
}

Object compile(const Source& source, const Target& target) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(source.bitcode, source.name), context);
  if (!module) internal_error(source.name + ": " + llvm::toString(module.takeError()));
  emit::verify(**module);
  auto machine = make_target_machine(target);
  optimize(**module, *machine);
  auto bytes = generate(**module, *machine, llvm::CodeGenFileType::ObjectFile);
  return {bytes.begin(), bytes.end()};
}

Object load_or_compile(const Source& source, const Target& target) {
  const cache::Key key =
      cache::KeyBuilder::versioned().add("routine").add(source.bitcode).add(target.key()).key();
  auto& disk = cache::DiskCache::standard();
  if (auto object = disk.load(key)) {
    ++kept().loaded;
    return *object;
  }
  Object object = compile(source, target);
  ++kept().compiled;
  disk.store(key, object, {.kernel = source.name, .config = "", .target = target.cpu});
  return object;
}

// A routine's name encodes everything that its code depends on except the target (dot/plan.h), so that the
// process finds it by its name: writing its IR would take a tenth of the time that a kernel with a product
// takes.
cache::Key key_of(const llvm::Function& routine, const Target& target) {
  return cache::KeyBuilder().add(routine.getName()).add(target.key()).key();
}

std::optional<FutureObject> find(const cache::Key& key) {
  std::lock_guard lock(kept().mutex);
  const auto it = kept().objects.find(key);
  if (it == kept().objects.end()) return std::nullopt;
  ++kept().reused;
  return it->second;
}

// Starts the compilation of a routine. Kernels that are compiled at the same time wait for the same object.
FutureObject start(const cache::Key& key, Source source, const Target& target) {
  std::lock_guard lock(kept().mutex);
  auto& objects = kept().objects;
  if (auto it = objects.find(key); it != objects.end()) return it->second;
  if (objects.size() >= most_kept) objects.clear();
  // `work` must be a variable: std::async has already moved the source out of a temporary when it finds that
  // it cannot create a thread.
  const auto work = [source = std::make_shared<const Source>(std::move(source)), target] {
    return load_or_compile(*source, target);
  };
  FutureObject object = std::async(by_thread, work).share();
  objects.emplace(key, object);
  return object;
}

} // namespace

RoutineObjects take_routines(llvm::Module& module, const Target& target) {
  std::vector<llvm::Function*> routines;
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && f.getName().starts_with(routine_prefix)) routines.push_back(&f);
  RoutineObjects objects;
  for (llvm::Function* f : routines) {
    const cache::Key key = key_of(*f, target);
    const std::optional<FutureObject> known = find(key);
    objects.emplace_back(key, known ? *known : start(key, source_of(*f), target));
  }
  for (llvm::Function* f : routines) {
    f->deleteBody();
    f->setLinkage(llvm::Function::ExternalLinkage);
  }
  return objects;
}

std::vector<std::vector<char>> wait_for(const RoutineObjects& routines) {
  std::vector<Object> objects;
  std::exception_ptr error;
  for (const auto& [key, object] : routines) {
    try {
      objects.push_back(object.get());
    } catch (...) { // so that the next kernel compiles the failed ones again
      error = std::current_exception();
      std::lock_guard lock(kept().mutex);
      kept().objects.erase(key);
    }
  }
  if (error) std::rethrow_exception(error);
  return objects;
}

RoutineStatistics routine_statistics() { return {kept().compiled, kept().reused, kept().loaded}; }

void forget_routines() {
  std::lock_guard lock(kept().mutex);
  kept().objects.clear();
}

} // namespace kiln::cpu
