// Finds routines by their names, clones each into a module of its own, and keeps the objects.
#include <kiln/jit/cpu/routines.h>

#include <kiln/jit/cache/disk_cache.h>
#include <kiln/jit/cpu/code_generation.h>

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <mutex>
#include <optional>
#include <unordered_map>

namespace kiln::cpu {

namespace {

using Object = std::vector<char>;

// A program has a few dozen of them, of 2 to 10 KB; one that tunes may see more.
constexpr std::size_t most_kept = 512;

struct Kept {
  std::mutex mutex;
  std::unordered_map<cache::Key, Object> objects;
  RoutineStatistics statistics;
};
Kept& kept() {
  static auto* k = new Kept; // never destroyed: kernels may compile while the process exits
  return *k;
}

void keep(const cache::Key& key, const Object& object) {
  if (kept().objects.size() >= most_kept) kept().objects.clear();
  kept().objects.emplace(key, object);
}

std::optional<Object> find(const cache::Key& key) {
  {
    std::lock_guard lock(kept().mutex);
    if (auto it = kept().objects.find(key); it != kept().objects.end()) {
      ++kept().statistics.reused;
      return it->second;
    }
  }
  auto object = cache::DiskCache::standard().load(key);
  if (!object) return {};
  std::lock_guard lock(kept().mutex);
  keep(key, *object);
  ++kept().statistics.loaded;
  return object;
}

void add(const cache::Key& key, const Object& object, const std::string& name, const Target& target) {
  {
    std::lock_guard lock(kept().mutex);
    keep(key, object);
    ++kept().statistics.compiled;
  }
  cache::DiskCache::standard().store(key, object, {.kernel = name, .config = "", .target = target.cpu});
}

// A module with one routine, which depends on nothing else of the module it was in: its text is its identity.
std::unique_ptr<llvm::Module> alone(const llvm::Function& routine) {
  llvm::ValueToValueMapTy values;
  auto module = llvm::CloneModule(*routine.getParent(), values,
                                  [&](const llvm::GlobalValue* v) { return v == &routine; });
  module->setModuleIdentifier(routine.getName());
  module->setSourceFileName(routine.getName());
  for (llvm::Function& f : llvm::make_early_inc_range(*module))
    if (f.isDeclaration() && f.use_empty()) f.eraseFromParent();
  for (llvm::GlobalVariable& v : llvm::make_early_inc_range(module->globals()))
    if (v.use_empty()) v.eraseFromParent();
  module->getFunction(routine.getName())->setLinkage(llvm::Function::ExternalLinkage);
  return module;
}

Object object_of(const llvm::Function& routine, llvm::TargetMachine& machine, const Target& target) {
  auto module = alone(routine);
  const cache::Key key =
      cache::KeyBuilder::versioned().add("routine").add(text_of(*module)).add(target.key()).key();
  if (auto object = find(key)) return *object;
  optimize(*module, machine);
  auto bytes = generate(*module, machine, llvm::CodeGenFileType::ObjectFile);
  Object object(bytes.begin(), bytes.end());
  add(key, object, routine.getName().str(), target);
  return object;
}

} // namespace

std::vector<std::vector<char>> take_routines(llvm::Module& module, llvm::TargetMachine& machine,
                                             const Target& target) {
  std::vector<Object> objects;
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && f.getName().starts_with(routine_prefix))
      objects.push_back(object_of(f, machine, target));
  for (llvm::Function& f : module)
    if (f.getName().starts_with(routine_prefix))
      f.deleteBody(), f.setLinkage(llvm::Function::ExternalLinkage);
  return objects;
}

RoutineStatistics routine_statistics() {
  std::lock_guard lock(kept().mutex);
  return kept().statistics;
}

void forget_routines() {
  std::lock_guard lock(kept().mutex);
  kept().objects.clear();
}

} // namespace kiln::cpu
