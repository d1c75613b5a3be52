// Runs assign: finds or compiles the variant of a whole-tensor expression, and queues its kernels.
#include <kiln/jit/runtime/assign/assign.h>

#include <kiln/dsl/detail/recording.h>
#include <kiln/jit/base/fork.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/assign/assign_kernel.h>
#include <kiln/jit/runtime/assign/assign_plan.h>
#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/cpu/run_kernel.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>
#include <kiln/jit/runtime/cuda/stream_memory.h>
#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/jit/runtime/reach.h>

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

// The payload of a command: one kernel, or two with a temporary between them.
//   words: the temporary or null, then for each kernel: its code, number of argument words, grid, arguments
class Payload {
public:
  void add(AssignPlan& plan, AssignSite& site, const AssignOperand* operands, Device device,
           const Location& here) {
    choose_tile(plan, device);
    AssignKey key;
    make_key(key, plan);
    AssignVariants& variants = variants_of(site);
    const CompiledKernel* code = variants.find(key, plan.view_count, device);
    if (!code) code = &compile(variants, site, key, plan.view_count, device, here);
    std::uint64_t* head = words_ + count_;
    head[0] = reinterpret_cast<std::uintptr_t>(code);
    for (int a = 0; a < plan.rank; ++a)
      head[2 + a] = static_cast<std::uint64_t>((plan.extents[a] - 1) / plan.tile_elements(a) + 1);
    int packed = pack_assign(head + 2 + plan.rank, site, plan, operands, here);
    head[1] = static_cast<std::uint64_t>(packed);
    count_ += 2 + plan.rank + packed;
    ++kernels_;
  }
  void enqueue(Stream& stream, std::unique_ptr<Buffer> temporary, bool small) {
    words_[0] = reinterpret_cast<std::uintptr_t>(temporary.get());
    const bool emulated = stream.device().is_emulated();
    stream.enqueue(execute, words_, static_cast<std::size_t>(count_) * sizeof(std::uint64_t),
                   {.small = small && !emulated});
    temporary.release(); // the command owns it now
    if (emulated && options().debug) stream.synchronize();
  }
  // Launches on a stream of a CUDA device, where kernels are commands of the driver.
  void launch(Stream& stream, const Location& here) {
    std::uint64_t* words = words_ + 1;
    for (int kernel = 0; kernel < kernels_; ++kernel) {
      auto& code = *reinterpret_cast<const CompiledKernel*>(words[0]);
      const std::size_t rank = code.grid.size();
      cuda::launch(stream, *code.cuda, words + 2 + rank, {reinterpret_cast<std::int64_t*>(words + 2), rank},
                   SourceLocation(here));
      words += 2 + rank + words[1];
    }
  }

private:
  static void execute(void* payload, CommandAction action) {
    auto* words = static_cast<const std::uint64_t*>(payload);
    std::unique_ptr<Buffer> temporary(reinterpret_cast<Buffer*>(words[0]));
    if (action == CommandAction::Discard) return;
    ++words;
    for (int kernel = 0; kernel < (temporary ? 2 : 1); ++kernel) {
      auto& code = *reinterpret_cast<const CompiledKernel*>(words[0]);
      int rank = static_cast<int>(code.grid.size());
      auto* grid = reinterpret_cast<const std::int64_t*>(words + 2);
      run_kernel(code, grid, rank, words + 2 + rank);
      words += 2 + static_cast<std::uint64_t>(rank) + words[1];
    }
  }

  int count_ = 1, kernels_ = 0;
  std::uint64_t words_[1 + 2 * (2 + max_rank) + max_assign_words + 2 * (1 + 2 * max_rank)];
};

// Computes the same expression into a temporary, and copies the temporary to the output.
void run_through_temporary(Stream& stream, AssignSite& site, AssignPlan& plan, const AssignOperand* operands,
                           const Location& here) {
  const Device device = stream.device();
  const int bytes = size_of(site.out);
  const bool on_cuda = device.kind() == DeviceKind::Cuda;
  std::unique_ptr<Buffer> temporary;
  std::optional<cuda::StreamMemory> ordered;
  if (on_cuda)
    ordered.emplace(stream, plan.elements * bytes, here);
  else
    temporary = std::make_unique<Buffer>(device, plan.elements * bytes, here);
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
  plan.out.data = copy.views[0].data = static_cast<char*>(on_cuda ? ordered->data() : temporary->data());
  AssignSite& copy_site = bytes == 1   ? assign_site<std::uint8_t, ViewLeaf<std::uint8_t, 1>>
                          : bytes == 2 ? assign_site<std::uint16_t, ViewLeaf<std::uint16_t, 1>>
                          : bytes == 4 ? assign_site<std::uint32_t, ViewLeaf<std::uint32_t, 1>>
                                       : assign_site<std::uint64_t, ViewLeaf<std::uint64_t, 1>>;
  copy.out.dtype = copy.views[0].dtype = copy_site.out;
  copy.views[0].along_rows = AlongRows::All;
  Payload payload;
  payload.add(plan, site, operands, device, here);
  payload.add(copy, copy_site, nullptr, device, here);
  if (!on_cuda) return payload.enqueue(stream, std::move(temporary), plan.elements <= small_elements);
  payload.launch(stream, here);
  ordered->free();
}

[[gnu::cold]] void refuse_memory(const std::string& what, const void* memory, Device device,
                                 const Location& here) {
  throw UserError(here, "assign: " + what + " is " + why_unreachable(memory, device));
}

void check_memory(const AssignPlan& plan, const AssignSite& site, Device device, const Location& here) {
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
  Payload payload;
  payload.add(plan, site, operands, stream.device(), here);
  if (stream.device().kind() == DeviceKind::Cuda) return payload.launch(stream, here);
  payload.enqueue(stream, nullptr, plan.elements <= small_elements);
}

} // namespace kiln::detail
