// Records kernels and compiles their variants. A variant is compiled once, even if several threads need it.
#include <kiln/jit/runtime/kernel/kernel_core.h>

#include <kiln/dsl/record.h>
#include <kiln/dsl/symbol.h>
#include <kiln/jit/base/fork.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>

namespace kiln::detail {

KernelCore::KernelCore(const Recipe& recipe, std::shared_ptr<const void> function, Location at)
    : name(intern(recipe.name)), where(at), location_(at), recipe_(recipe), function_(std::move(function)) {
  recipe_.name = name;
  for (int i = 0; i < recipe.parameter_count; ++i)
    add_parameter(recipe.parameters[i]);
  check_views();
}

KernelCore::KernelCore(std::shared_ptr<const ir::Kernel> recorded,
                       const std::vector<ParameterInfo>& parameters)
    : name(intern(recorded->name)), recipe_{}, recorded_(std::move(recorded)) {
  for (const ParameterInfo& info : parameters)
    add_parameter(info);
  check_views();
}

void KernelCore::add_parameter(const ParameterInfo& info) {
  const bool view = info.kind == ParameterInfo::Kind::View;
  parameters_.push_back({info, words, view ? views_ : -1});
  views_ += view;
  raw_pointers_ |= info.kind == ParameterInfo::Kind::Pointer;
  words += view ? 1 + 2 * info.rank : 1;
}

void KernelCore::check_views() const {
  if (views_ > 32)
    throw UserError(where, "kernel \"" + std::string(name) + "\" has " + std::to_string(views_) +
                               " View parameters, and 32 is the limit; merge tensors or use raw::Ptr");
}

std::string KernelCore::title() const {
  std::string text = "kernel \"" + std::string(name) + "\"";
  return where ? text + " (" + to_string(where) + ")" : text;
}

std::unique_ptr<ir::Kernel> KernelCore::record(const Config& config) const {
  return recorded_ ? recorded_->clone() : record_recipe(recipe_, config, location_);
}

std::vector<LayoutClass> KernelCore::layouts_of(std::uint64_t bits) const {
  std::vector<LayoutClass> layouts;
  for (int i = 0; i < views_; ++i)
    layouts.push_back(static_cast<LayoutClass>(bits >> (2 * i) & 3));
  return layouts;
}

std::shared_ptr<const CompiledKernel> KernelCore::compile(const VariantKey& key) const {
  auto recorded = record(key.config);
  return compile_kernel({*recorded, key.config, layouts_of(key.layouts), key.device, where});
}

const Variant& KernelCore::new_variant(const VariantKey& key) {
  passes::check_options(where, name, key.config); // before the options that the device lacks are dropped
  const HoldsForks no_fork; // before the lock, because a thread may wait here for a fork
  std::unique_lock lock(mutex_);
  auto insert = [&](std::shared_ptr<const CompiledKernel> code) -> const Variant& {
    return variants_.insert(std::unique_ptr<const Variant>(
        new Variant{this, std::move(code), key.config, key.layouts, key.device}));
  };
  // The config without the options that the device lacks, so that variants which differ only in those share
  // code.
  Config config = config_for(key.device, key.config);
  VariantKey compiled_key{config, key.layouts, key.device};
  for (;;) {
    if (const Variant* known = variants_.find(key)) return *known;
    if (const Variant* same = variants_.find(compiled_key)) return insert(same->code);
    auto pending =
        std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) { return p->is(compiled_key); });
    if (pending == pending_.end()) break;
    std::shared_ptr<Pending> other = *pending;
    finished_.wait(lock, [&] { return other->done; });
    if (other->error) std::rethrow_exception(other->error);
  }
  auto mine = std::make_shared<Pending>(Pending{config, key.layouts, key.device, false, nullptr});
  pending_.push_back(mine);
  lock.unlock();
  std::shared_ptr<const CompiledKernel> code;
  try {
    code = compile(compiled_key);
  } catch (...) {
    mine->error = std::current_exception();
  }
  lock.lock();
  std::erase(pending_, mine);
  mine->done = true;
  finished_.notify_all();
  if (mine->error) std::rethrow_exception(mine->error);
  if (!(key == compiled_key))
    variants_.insert(
        std::unique_ptr<const Variant>(new Variant{this, code, config, key.layouts, key.device}));
  return insert(std::move(code));
}

// --- KernelHandle ------------------------------------------------------------------------------------------

KernelHandle::KernelHandle(const Recipe& recipe, std::shared_ptr<const void> function, Location where)
    : core_(new KernelCore(recipe, std::move(function), where)) {}
KernelHandle::KernelHandle(const KernelHandle& other) : core_(&other.core({})) { core_->retain(); }
KernelHandle& KernelHandle::operator=(const KernelHandle& other) {
  other.core({}).retain();
  core_->release();
  core_ = other.core_;
  return *this;
}
KernelHandle::~KernelHandle() { core_->release(); }

void KernelHandle::not_made(Location site) {
  throw UserError(site,
                  "a kernel is used before it is made: it is a global variable, and the initialisation of "
                  "another global variable uses it, which C++ runs first; use the kernel after main() has "
                  "begun, or make it in a function, static const auto k = kernel(...)");
}

std::shared_ptr<ir::Kernel> record(KernelCore& core, const Config& config) { return core.record(config); }
const char* name_of(const KernelCore& core) { return core.name; }
SourceLocation location_of(const KernelCore& core) { return core.where; }

} // namespace kiln::detail
