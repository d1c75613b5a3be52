// Runs a tile IR kernel on the CPU back end and in the interpreter, to compare both.
#pragma once

#include <dsl/keep_kernel.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/symbol.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/cpu/hooks.h>
#include <kiln/jit/cpu/object/engine.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>

namespace kiln::test {

struct CpuKernel {
  std::unique_ptr<ir::Kernel> lowered;
  std::shared_ptr<cpu::LoadedCode> code;
  std::int64_t scratch_bytes = 0;
  cpu::Grouping grouping;

  CpuKernel(const ir::Kernel& recorded, const Config& config, std::vector<LayoutClass> layouts = {},
            cpu::CompileOptions options = {}, const cpu::Target& target = cpu::host_target()) {
    keep_kernel(recorded, config);
    passes::PassOptions pass_options;
    pass_options.config = config;
    pass_options.layouts = std::move(layouts);
    lowered = passes::lower_generic(recorded, pass_options);
    if (std::getenv("KILN_TEST_SHOW")) options.keep_llvm = true;
    auto object = cpu::compile(*lowered, target, options);
    if (std::getenv("KILN_TEST_SHOW")) std::fputs(object.llvm_after.c_str(), stderr);
    scratch_bytes = object.scratch_bytes;
    grouping = cpu::grouping_of(*lowered, target);
    code = cpu::load_object(object.object, lowered->name);
  }

  // Runs all programs on this thread, in groups as for `threads` threads, `chunk` groups per call, and throws
  // the error of a failed assert. Scratch is filled with `poison` before, on which no result may depend.
  // Stores are non-temporal where possible, unless `stream_bytes` is larger.
  void run(const std::uint64_t* arguments, std::vector<std::int64_t> grid, unsigned char poison = 0xCD,
           std::int64_t chunk = std::int64_t{1} << 40, std::int64_t stream_bytes = 0, int threads = 1) const {
    cpu::LaunchContext context{};
    context.stream_bytes = stream_bytes;
    cpu::LaunchState state;
    state.kernel = lowered->name.c_str();
    std::int64_t programs = 1;
    for (auto& g : context.grid)
      g = 1;
    for (std::size_t i = 0; i < grid.size(); ++i)
      context.grid[i] = grid[i];
    const auto group = cpu::choose_group(grouping, context.grid, threads, arguments);
    std::copy(group.begin(), group.end(), context.group);
    for (std::size_t i = 0; i < grid.size(); ++i)
      programs *= (grid[i] + group[i] - 1) / group[i];
    constexpr std::int64_t guard = 1024;
    auto bytes = static_cast<std::size_t>((scratch_bytes + guard + 63) / 64 * 64);
    std::unique_ptr<char, decltype(&std::free)> scratch(static_cast<char*>(std::aligned_alloc(64, bytes)),
                                                        &std::free);
    std::fill_n(scratch.get(), bytes, static_cast<char>(poison));
    context.scratch = scratch.get();
    context.stop = &state.stop;
    context.launch = &state;
    for (std::int64_t first = 0; first < programs; first += chunk)
      code->entry()(arguments, &context, first, std::min(programs, first + chunk));
    const bool beyond = std::any_of(scratch.get() + scratch_bytes, scratch.get() + bytes,
                                    [&](char c) { return c != static_cast<char>(poison); });
    if (beyond) throw std::logic_error("the kernel stored beyond its scratch");
    if (state.error) std::rethrow_exception(state.error);
  }
};

// A compiled kernel, which is compiled only if none of the last kernels that this function compiled is equal:
// tests run a kernel with many sets of arguments, and compiling takes longer than running. Thread-safe.
inline std::shared_ptr<const CpuKernel> compiled_once(const ir::Kernel& recorded,
                                                      const std::vector<LayoutClass>& layouts = {},
                                                      bool debug = false,
                                                      const cpu::Target& target = cpu::host_target()) {
  struct Known {
    std::string text;
    std::vector<LayoutClass> layouts;
    bool debug;
    cpu::Target target;
    std::shared_ptr<const CpuKernel> kernel;
  };
  static std::mutex mutex;
  static std::deque<Known> known; // the newest is last
  const std::string text = ir::print(recorded, {.locations = true});
  const std::lock_guard lock(mutex);
  for (const Known& k : known)
    if (k.text == text && k.layouts == layouts && k.debug == debug && k.target == target) return k.kernel;
  auto kernel = std::make_shared<const CpuKernel>(recorded, Config(), layouts,
                                                  cpu::CompileOptions{.debug = debug}, target);
  if (known.size() == 16) known.pop_front();
  known.push_back({text, layouts, debug, target, kernel});
  return kernel;
}

} // namespace kiln::test
