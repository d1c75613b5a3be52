// Runs a kernel's programs in groups: on the calling thread if they are short, or else on the pool.
#include <kiln/jit/runtime/cpu/run_kernel.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/float_environment.h>
#include <kiln/jit/cpu/hooks.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/runtime/cpu/scratch.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/jit/runtime/emulated/kernel_code.h>

#include <algorithm>
#include <atomic>

namespace kiln::detail {

namespace {

// Threads take groups of programs in portions of about this duration.
constexpr double portion_ns = 5000;
// A launch of one thread has longer portions: atomic operations of other launches may have to wait for one.
constexpr double longest_portion_ns = 1e6;

struct SharedLaunch { // state that the threads of a launch share
  const CompiledKernel* code;
  const std::uint64_t* arguments;
  cpu::LaunchContext context;
  cpu::LaunchState state;
};

void fail(SharedLaunch& launch, std::exception_ptr error) {
  std::lock_guard lock(launch.state.mutex);
  if (!launch.state.error) launch.state.error = std::move(error);
  std::atomic_ref(launch.state.stop).store(1, std::memory_order_relaxed);
}

void run_groups(void* shared, std::int64_t begin, std::int64_t end, int) noexcept {
  auto& launch = *static_cast<SharedLaunch*>(shared);
  if (std::atomic_ref(launch.state.stop).load(std::memory_order_relaxed)) return;
  cpu::LaunchContext context = launch.context;
  if (std::int64_t bytes = launch.code->scratch_bytes; bytes > 0) {
    context.scratch = static_cast<char*>(thread_scratch(bytes));
    if (!context.scratch) {
      fail(launch, std::make_exception_ptr(UserError(
                       "kernel \"" + launch.code->name + "\": no memory for the " + std::to_string(bytes) +
                       " bytes of scratch that a thread needs; use smaller tiles or fewer threads")));
      return;
    }
  }
  // The pool's threads inherited the modes of the thread that started them.
  const DefaultFloatEnvironment environment;
  launch.code->code->entry()(launch.arguments, &context, begin, end);
}

} // namespace

void run_kernel(const CompiledKernel& code, const std::int64_t* grid, int rank,
                const std::uint64_t* arguments) {
  if (code.emulated) {
    const DefaultFloatEnvironment environment;
    return emulated::run(*code.emulated, grid, rank, arguments);
  }
  SharedLaunch launch{&code, arguments, {}, {}};
  launch.state.kernel = code.name.c_str();
  launch.context.stop = &launch.state.stop;
  launch.context.launch = &launch.state;
  launch.context.stream_bytes = cpu::tuning::reused_bytes(Device::cpu().properties().l3_bytes);
  std::fill(std::begin(launch.context.grid), std::end(launch.context.grid), 1);
  std::int64_t programs = 1;
  for (int i = 0; i < rank; ++i)
    programs *= launch.context.grid[i] = grid[i];
  if (programs == 0) return;
  const double ns = code.cost.program_ns(launch.arguments);
  auto& pool = ThreadPool::current();
  const bool here = programs == 1 || ns * static_cast<double>(programs) < inline_ns;
  const auto group = cpu::choose_group(code.grouping, launch.context.grid, here ? 1 : pool.size(), arguments);
  std::copy(group.begin(), group.end(), launch.context.group);
  std::int64_t groups = 1;
  for (int i = 0; i < rank; ++i)
    groups *= (grid[i] + group[static_cast<std::size_t>(i)] - 1) / group[static_cast<std::size_t>(i)];
  const double group_ns =
      ns * static_cast<double>(programs) / static_cast<double>(std::max<std::int64_t>(groups, 1));
  auto groups_in = [&](double duration) {
    return static_cast<std::int64_t>(std::min(duration / std::max(group_ns, 1.0), 1e6));
  };
  // The grain that the pool would choose, or a larger one if groups are so short that assigning them costs
  // more.
  const std::int64_t fair = std::max<std::int64_t>(1, groups / (32 * std::int64_t{pool.size()}));
  const std::int64_t grain = std::max(fair, groups_in(portion_ns));
  if (here || pool.size() == 1 || groups <= grain) {
    launch.context.one_thread = group_ns < 10 * longest_portion_ns;
    const std::int64_t portion = std::max<std::int64_t>(1, groups_in(longest_portion_ns));
    for (std::int64_t begin = 0; begin < groups; begin += portion)
      run_groups(&launch, begin, std::min(groups, begin + portion), 0);
  } else {
    pool.parallel_for(groups, run_groups, &launch, grain);
  }
  if (launch.state.error) std::rethrow_exception(launch.state.error);
}

} // namespace kiln::detail
