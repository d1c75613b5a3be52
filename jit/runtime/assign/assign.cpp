// Runs assign: finds or compiles the variant of a whole-tensor expression, and queues its kernels.
#include <kiln/jit/runtime/assign/assign.h>

#include <kiln/dsl/detail/recording.h>
#include <kiln/jit/base/fork.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/assign/assign_kernel.h>
#include <kiln/jit/runtime/assign/assign_plan.h>
#include <kiln/jit/runtime/cpu/run_kernel.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>
#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/jit/runtime/reach.h>
#include <kiln/jit/runtime/rehearsing.h>
#include <kiln/jit/runtime/stream_memory.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

namespace kiln::detail {

// The variants of one expression. The list only grows, so readers need no lock.
struct AssignVariants {
  struct Variant {
    AssignKey key;
    Device device;
    std::shared_ptr<const CompiledKernel> code;
    const Variant* next;
  };
  std::atomic<const Variant*> first{nullptr};
  std::mutex mutex; // held while a variant is compiled; other threads that need one of this expression wait

  const CompiledKernel* find(const AssignKey& key, int views, Device device) const {
    for (const Variant* v = first.load(std::memory_order_acquire); v; v = v->next)
      if (v->device == device && v->key.equals(key, views)) return v->code.get();
    return nullptr;
  }
};

namespace {

// Work on fewer elements takes less time than waking another thread.
constexpr std::int64_t small_elements = 8192;

AssignVariants& variants_of(AssignSite& site) {
  if (AssignVariants* known = site.variants.load(std::memory_order_acquire)) return *known;
  auto fresh = std::make_unique<AssignVariants>();
  AssignVariants* winner = nullptr;
  return site.variants.compare_exchange_strong(winner, fresh.get()) ? *fresh.release() : *winner;
}

[[gnu::cold]] const CompiledKernel& compile(AssignVariants& variants, const AssignSite& site,
                                            const AssignKey& key, int views, Device device,
                                            const Location& here) {
  const HoldsForks no_fork; // before the lock, because a thread may wait here for a fork
  std::lock_guard lock(variants.mutex);
  if (const CompiledKernel* known = variants.find(key, views, device)) return *known;
  std::unique_ptr<ir::Kernel> kernel = record_assign(site, key, here);
  std::vector<LayoutClass> layouts;
  for (const auto& parameter : kernel->body.args)
    if (parameter->type.is_view()) layouts.push_back(parameter->type.layout);
  auto code = compile_kernel({*kernel, config_for(device, {}), layouts, device, here});
  variants.first.store(new AssignVariants::Variant{key, device, code, variants.first.load()},
                       std::memory_order_release);
  return *code;
}

// One kernel and its arguments.
//   words: the code, the grid, the arguments
class Launch {
public:
  Launch(AssignPlan& plan, AssignSite& site, const AssignOperand* operands, Device device,
         const Location& here)
      : rank_(plan.rank), small_(plan.elements <= small_elements) {
    choose_tile(plan, device);
    AssignKey key;
    make_key(key, plan);
    AssignVariants& variants = variants_of(site);
    code_ = variants.find(key, plan.view_count, device);
    if (!code_) code_ = &compile(variants, site, key, plan.view_count, device, here);
    words_[0] = reinterpret_cast<std::uintptr_t>(code_);
    for (int a = 0; a < plan.rank; ++a)
      words_[1 + a] = static_cast<std::uint64_t>((plan.extents[a] - 1) / plan.tile_elements(a) + 1);
    count_ = 1 + plan.rank + pack_assign(words_ + 1 + plan.rank, site, plan, operands, here);
  }

  void enqueue(Stream& stream, const AssignPlan& plan, const Location& here) {
    if (Rehearsing* rehearsing = Rehearsing::current())
      return rehearsing->add(rehearsed(plan, stream.device()));
    refuse_stand_ins(plan, here);
    if (stream.device().kind() == DeviceKind::Cuda) { // where kernels are commands of the driver
      cuda::launch(stream, *code_->cuda, words_ + 1 + rank_,
                   {reinterpret_cast<std::int64_t*>(words_ + 1), static_cast<std::size_t>(rank_)},
                   SourceLocation(here));
      return;
    }
    const bool emulated = stream.device().is_emulated();
    stream.enqueue(execute, words_, static_cast<std::size_t>(count_) * sizeof(std::uint64_t),
                   {.small = small_ && !emulated});
    if (emulated && options().debug) stream.synchronize();
  }

private:
  RehearsedLaunch rehearsed(const AssignPlan& plan, Device device) const {
    const auto* grid = reinterpret_cast<const std::int64_t*>(words_ + 1);
    RehearsedLaunch launch{"assign", device, {}, {grid, grid + rank_}, {}};
    const auto add = [&](const AssignPlan::View& view) {
      launch.arguments.push_back(text_of_array(name(view.dtype), plan.rank, plan.extents, view.strides));
    };
    add(plan.out);
    std::for_each(plan.views, plan.views + plan.view_count, add);
    return launch;
  }
  static void refuse_stand_ins(const AssignPlan& plan, const Location& here) {
    const auto is = [](const AssignPlan::View& view) {
      return is_stand_in(reinterpret_cast<std::uintptr_t>(view.data));
    };
    if (is(plan.out) || std::any_of(plan.views, plan.views + plan.view_count, is))
      throw UserError(here, "assign: a tensor is a stand-in, which has no memory; call it inside of "
                            "rehearse()");
  }
  static void execute(void* payload, CommandAction action) {
    if (action == CommandAction::Discard) return;
    auto* words = static_cast<const std::uint64_t*>(payload);
    auto& code = *reinterpret_cast<const CompiledKernel*>(words[0]);
    const int rank = static_cast<int>(code.grid.size());
    run_kernel(code, reinterpret_cast<const std::int64_t*>(words + 1), rank, words + 1 + rank);
  }

  const CompiledKernel* code_;
  int rank_, count_;
  bool small_;
  std::uint64_t words_[1 + max_rank + max_assign_words];
};

// Computes the same expression into a temporary, and copies the temporary to the output.
void run_through_temporary(Stream& stream, AssignSite& site, AssignPlan& plan, const AssignOperand* operands,
                           const Location& here) {
  const Device device = stream.device();
  const int bytes = size_of(site.out);
  StreamMemory temporary(stream, plan.elements * bytes, here);
  AssignPlan copy;
  copy.rank = plan.rank;
  copy.elements = plan.elements;
  copy.out = plan.out;
  copy.view_count = 1;
  std::int64_t stride = 1;
  for (int a = plan.rank - 1; a >= 0; --a) {
    copy.extents[a] = plan.extents[a];
    plan.out.strides[a] = copy.views[0].strides[a] = stride;
    stride *= plan.extents[a];
  }
  plan.out.data = copy.views[0].data = static_cast<char*>(temporary.data());
  AssignSite& copy_site = bytes == 1   ? assign_site<std::uint8_t, ViewLeaf<std::uint8_t, 1>>
                          : bytes == 2 ? assign_site<std::uint16_t, ViewLeaf<std::uint16_t, 1>>
                          : bytes == 4 ? assign_site<std::uint32_t, ViewLeaf<std::uint32_t, 1>>
                                       : assign_site<std::uint64_t, ViewLeaf<std::uint64_t, 1>>;
  copy.out.dtype = copy.views[0].dtype = copy_site.out;
  copy.views[0].along_rows = AlongRows::All;
  Launch computing(plan, site, operands, device, here), copying(copy, copy_site, nullptr, device, here);
  computing.enqueue(stream, plan, here);
  copying.enqueue(stream, copy, here);
  temporary.free();
}

[[gnu::cold]] void refuse_memory(const std::string& what, const void* memory, Device device,
                                 const Location& here) {
  throw UserError(here, "assign: " + what + " is " + why_unreachable(memory, device));
}

void check_memory(const AssignPlan& plan, const AssignSite& site, Device device, const Location& here) {
  if (Rehearsing::current()) return;
  if (!is_reachable(plan.out.data, device)) refuse_memory("the output", plan.out.data, device, here);
  int view = 0;
  for (int i = 0; i < site.leaf_count; ++i) {
    if (site.leaves[i].kind != AssignLeaf::Kind::View) continue;
    const void* data = plan.views[view++].data;
    if (!is_reachable(data, device))
      refuse_memory("operand " + std::to_string(i) + " of the expression", data, device, here);
  }
}

} // namespace

void run_assign(Stream& stream, AssignSite& site, const AssignTarget& out, const AssignOperand* operands,
                const Location& here) {
  if (const Recording* recording = Recording::current())
    throw UserError(here, "assign is called while kernel \"" + std::string(recording->name) +
                              "\" is being recorded; call it outside of the kernel's lambda");
  AssignPlan plan;
  plan_assign(plan, site, out, operands, here);
  if (plan.elements == 0) return;
  if (memories_differ()) check_memory(plan, site, stream.device(), here);
  if (needs_temporary(plan)) return run_through_temporary(stream, site, plan, operands, here);
  Launch(plan, site, operands, stream.device(), here).enqueue(stream, plan, here);
}

} // namespace kiln::detail
