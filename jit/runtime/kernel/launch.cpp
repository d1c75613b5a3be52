// Launches kernels: turns arguments on the stack into a command on a stream, and runs that command.
//
// A warm launch checks the arguments, looks up the variant, checks `expects`, and copies one block into the
// stream's queue, without locks or allocations. On a CUDA device it passes the arguments to the driver
// instead, and records the launch in the histories of the stream and the device, which have a lock each.
#include <kiln/jit/runtime/kernel/kernel_core.h>

#include <kiln/dsl/detail/recording.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/jit/base/float_environment.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/cpu/run_kernel.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>
#include <kiln/jit/runtime/kernel/precompile.h>
#include <kiln/jit/runtime/rehearsing.h>

#include <algorithm>
#include <atomic>

namespace kiln::detail {

namespace {

constexpr int max_grid_rank = launch_header_words - 1;
constexpr int explicit_rank = 3; // number of axes of a Grid

// --- The grid ----------------------------------------------------------------------------------------------

struct Programs {
  std::int64_t axes[max_grid_rank];
  int rank = 0;
  std::int64_t total = 1;
};

std::string text_of(const Programs& p) {
  std::string text;
  for (int i = 0; i < p.rank; ++i)
    text += (i ? " x " : "") + std::to_string(p.axes[i]);
  return text;
}

void refuse_grid(const KernelCore& core, SourceLocation site, bool given) {
  throw UserError(site, core.title() +
                            (given ? " defines its grid by program_tile; launch it without a Grid"
                                   : " has no program_tile that defines its grid; pass a Grid to launch"));
}

// Computes the grid of a launch. False if there is nothing to run.
bool find_grid(const KernelCore& core, SourceLocation site, const std::vector<CompiledKernel::Axis>& axes,
               const Grid* given, const std::uint64_t* words, Device device, Programs& p) {
  if (axes.empty() == (given == nullptr)) refuse_grid(core, site, given);
  if (given) {
    p.rank = explicit_rank;
    p.axes[0] = given->x, p.axes[1] = given->y, p.axes[2] = given->z;
  } else {
    p.rank = static_cast<int>(axes.size());
    for (int i = 0; i < p.rank; ++i) {
      auto extent = static_cast<std::int64_t>(words[axes[i].extent_word]);
      p.axes[i] = extent / axes[i].tile + (extent % axes[i].tile != 0);
    }
  }
  bool fits = true;
  for (int i = 0; i < p.rank; ++i) {
    if (p.axes[i] < 0)
      throw UserError(site,
                      core.title() + ": the grid is " + text_of(p) + "; its sizes must not be negative");
    if (p.axes[i] == 0) return false;
    fits = fits && !__builtin_mul_overflow(p.total, p.axes[i], &p.total);
  }
  std::int64_t limit = device.limits().max_programs;
  if (!fits || p.total > limit)
    throw UserError(site, core.title() + ": the grid is " + text_of(p) + " programs, and " +
                              to_string(device) + " runs at most " + std::to_string(limit) +
                              " in one launch; use larger tiles, or launch parts");
  return true;
}

// --- The command -------------------------------------------------------------------------------------------

// The payload of a command: the variant, its grid and its arguments.
struct Command {
  const Variant* variant;
  const std::uint64_t* words; // stored behind the variant
  int grid_rank() const {
    int rank = static_cast<int>(variant->code->grid.size());
    return rank ? rank : explicit_rank;
  }
  const std::int64_t* grid() const { return reinterpret_cast<const std::int64_t*>(words); }
  const std::uint64_t* arguments() const { return words + grid_rank(); }
};

void execute(void* payload, CommandAction action) {
  auto* words = static_cast<const std::uint64_t*>(payload);
  Command command{reinterpret_cast<const Variant*>(words[0]), words + 1};
  struct Release {
    KernelCore* core;
    ~Release() { core->release(); }
  } release{command.variant->core};
  if (action == CommandAction::Run)
    run_kernel(*command.variant->code, command.grid(), command.grid_rank(), command.arguments());
}

void check_not_recording(const KernelCore& core, SourceLocation site, const char* what) {
  if (Recording* r = Recording::current())
    throw UserError(site, core.title() + " is " + what + " while kernel \"" + r->name +
                              "\" is being recorded; launch it outside of the lambda");
}

} // namespace

void launch(KernelCore& core, Stream& stream, Location at, const Config& config, const Grid* given,
            std::uint64_t* words) {
  SourceLocation site(at);
  check_not_recording(core, site, "launched");
  std::uint64_t layouts = core.check_arguments(words, site);
  const Variant& variant = core.variant({config, layouts, stream.device()});
  const CompiledKernel& code = *variant.code;
  code.expectations.check(words);
  Programs programs;
  if (!find_grid(core, site, code.grid, given, words, stream.device(), programs)) return;
  if (Rehearsing* rehearsing = Rehearsing::current())
    return rehearsing->add({core.name,
                            stream.device(),
                            variant.config,
                            {programs.axes, programs.axes + programs.rank},
                            core.texts_of(words)});
  core.check_pointers(words, site);
  core.check_memory(words, stream.device(), site);
  if (code.cuda) {
    cuda::launch(stream, *code.cuda, words, {programs.axes, static_cast<std::size_t>(programs.rank)}, site);
    return;
  }
  double ns = code.cost.program_ns(words) * static_cast<double>(programs.total);

  std::uint64_t* payload = words - programs.rank - 1;
  payload[0] = reinterpret_cast<std::uintptr_t>(&variant);
  for (int i = 0; i < programs.rank; ++i)
    payload[1 + i] = static_cast<std::uint64_t>(programs.axes[i]);
  auto bytes = static_cast<std::size_t>(1 + programs.rank + core.words) * sizeof(std::uint64_t);
  core.retain();
  try {
    stream.enqueue(execute, payload, bytes, {.small = !code.emulated && ns < inline_ns});
  } catch (...) {
    core.release();
    throw;
  }
  if (code.emulated && options().debug) stream.synchronize();
}

void interpret(KernelCore& core, const Config& config, const Grid* given, std::uint64_t* words) {
  SourceLocation site = core.where;
  check_not_recording(core, site, "interpreted");
  std::uint64_t layouts = core.check_arguments(words, site);
  passes::check_options(site, core.name, config);
  Config used = config_for(Device::cpu(), config);
  auto kernel = core.record(used);
  passes::bind(*kernel, {used, core.layouts_of(layouts)});
  ir::ArgumentLayout layout = ir::ArgumentLayout::of(*kernel);
  std::vector<CompiledKernel::Axis> axes;
  for (const ir::GridAxis& axis : kernel->grid)
    axes.push_back({layout.extent_word(axis.param, axis.axis), axis.tile.value()});
  Programs programs;
  if (!find_grid(core, site, axes, given, words, Device::cpu(), programs)) return;
  core.check_pointers(words, site);
  const DefaultFloatEnvironment environment;
  ir::interpret(*kernel, words, {programs.axes, static_cast<std::size_t>(programs.rank)});
}

void warm_up(KernelCore& core, Device device, Location at, const Config& config,
             std::initializer_list<LayoutClass> layouts) {
  SourceLocation site(at);
  check_not_recording(core, site, "warmed up");
  core.variant({config, core.layout_bits(layouts, site), device});
}

void precompile(KernelCore& core, const char* arch, Location at, const Config& config,
                std::initializer_list<LayoutClass> layouts) {
  SourceLocation site(at);
  check_not_recording(core, site, "precompiled");
  passes::check_options(site, core.name, config);
  const Config used = config_for(DeviceKind::Cuda, config);
  precompile_kernel(
      {*core.record(used), used, core.layouts_of(core.layout_bits(layouts, site)), arch, core.where});
}

} // namespace kiln::detail
