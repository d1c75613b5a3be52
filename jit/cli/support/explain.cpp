// Lowers and compiles a kernel, computes its cost, and keeps the result of each step.
#include <kiln/jit/cli/support/explain.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/expectations.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/dsl/symbol.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/cpu/rewrite/widen.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/layout/layouts.h>
#include <kiln/jit/gpu/layout_plan.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/device.h>

#include <algorithm>

namespace kiln::cli {

namespace {

std::vector<std::string> grid_text(const ir::Kernel& lowered, const Example& example) {
  std::vector<std::string> text;
  for (const ir::GridAxis& axis : lowered.grid)
    text.push_back("cdiv(" + example.parameters[static_cast<std::size_t>(axis.param)].name + ".extent(" +
                   std::to_string(axis.axis) + "), " + axis.tile.to_string() + ")");
  return text;
}

// Computes the grid, and evaluates `expects`, as far as the sizes are known.
std::vector<std::int64_t> launch_on_paper(const ir::Kernel& lowered, const Example& example) {
  if (!example.complete) return {};
  const std::vector<std::uint64_t> words = example.words();
  ir::Expectations::compile(lowered).check(words.data());
  return ir::grid_of(lowered, words.data());
}

// Determines how the threads of a GPU would hold each tile.
void draw_layouts(const ir::Kernel& lowered, const Config& config, const std::string& arch, Explanation& e) {
  try {
    const gpu::PtxOptions options = gpu::ptx_options(lowered.name, config);
    e.warps = options.warps;
    gpu::compile_to_ptx(lowered, {arch}, options); // for the errors that it throws
  } catch (const UserError& refusal) {
    e.gpu_refusal = refusal;
    return;
  }
  const gpu::LayoutPlan plan = gpu::plan_layouts(lowered, e.warps);
  const ir::ValueNames names(lowered);
  auto add = [&](const ir::Value* v) {
    if (!v->type.is_tile()) return;
    const std::string tile = names(v) + ": " + v->type.to_string();
    const gpu::LinearLayout* layout = plan.find(v);
    if (!layout) {
      e.free_tiles.push_back(tile);
      return;
    }
    const std::string drawn = gpu::picture(*layout);
    auto same = std::ranges::find(e.pictures, drawn, &LayoutPicture::picture);
    if (same == e.pictures.end()) same = e.pictures.insert(same, {{}, drawn});
    same->tiles.push_back(tile);
  };
  ir::walk(lowered.body, [&](const ir::Op& op) {
    for (const auto& region : op.regions)
      for (const auto& arg : region->args)
        add(arg.get());
    for (const auto& result : op.results)
      add(result.get());
  });
}

// The grid of the user, or that of the registration if its sizes and its config are used.
std::string given_grid(const RequestedKernel& requested, const KernelOptions& sizes,
                       const ExplainOptions& options) {
  const RegisteredKernel* registered = requested.registered;
  if (!options.grid.empty() || !registered) return options.grid;
  const bool as_registered = sizes.sizes.empty() && requested.config == Config::parse(registered->config);
  return as_registered ? registered->grid : "";
}

} // namespace

Explanation explain(const RequestedKernel& requested, const KernelOptions& sizes,
                    const ExplainOptions& options) {
  const ir::Kernel& unnamed = *requested.recorded;
  const RegisteredKernel* registered = requested.registered;
  Explanation e;
  e.name = unnamed.name;
  e.summary = registered ? registered->summary : "";
  e.example = make_example(unnamed, registered, sizes.sizes);
  // A lambda's parameters have no names. The names of the registration make the text easier to read.
  std::unique_ptr<ir::Kernel> kernel = unnamed.clone();
  for (std::size_t i = 0; registered && i < kernel->body.args.size(); ++i)
    kernel->body.args[i]->name = intern(e.example.parameters[i].name);
  const ir::Kernel& recorded = *kernel;
  e.recorded = ir::print(recorded);
  passes::PassOptions pass_options{requested.config, {}};
  e.config = requested.config.to_string();
  e.unused_by_gpu = gpu::unused_options(requested.config);
  pass_options.layouts = e.layouts = layouts_of(sizes, recorded, e.example);
  e.layouts_given = !sizes.layouts.empty();
  auto lowered =
      passes::lower_generic(recorded, pass_options, [&](std::string_view pass, const ir::Kernel& kernel) {
        e.passes.push_back({std::string(pass), ir::print(kernel)});
      });
  if (options.on_gpu) draw_layouts(*lowered, requested.config, options.arch, e);
  e.grid = grid_text(*lowered, e.example);
  e.programs = launch_on_paper(*lowered, e.example);
  if (registered && registered->remark && e.example.complete)
    e.remark = registered->remark(requested.config, e.example.words().data());
  if (!options.grid.empty() && !lowered->grid.empty())
    throw UserError("--grid " + options.grid + ": kernel " + e.name + " has a grid of its own, " +
                    e.grid.front() + " programs along axis 0; give sizes instead");
  if (const std::string grid = given_grid(requested, sizes, options); !grid.empty())
    e.programs = e.example.arguments.grid = parse_extents("--grid", grid);
  for (const auto& arg : lowered->body.args)
    e.types.push_back(arg->type.to_string());

  e.target = options.cpu.empty() ? cpu::host_target() : cpu::named_target(options.cpu);
  cpu::CompileOptions compile_options;
  compile_options.debug = options.debug;
  compile_options.line_info = compile_options.keep_llvm = compile_options.keep_assembly = true;
  passes::PassOptions of_cpu = pass_options;
  if (!options.debug)
    of_cpu.config = cpu::widened_config(recorded, pass_options, Device::cpu().properties().num_threads);
  if (of_cpu.config != requested.config) e.cpu_config = of_cpu.config.to_string();
  const auto wide = e.cpu_config.empty() ? nullptr : passes::lower_generic(recorded, of_cpu);
  cpu::CompiledObject object = cpu::compile(wide ? *wide : *lowered, e.target, compile_options);
  e.scratch_bytes = object.scratch_bytes;
  e.object_bytes = object.object.size();
  e.llvm_before = std::move(object.llvm_before);
  e.llvm_after = std::move(object.llvm_after);
  e.assembly = std::move(object.assembly);

  e.cost = passes::cost_of(*lowered, e.example.arguments);
  if (options.bandwidth > 0) e.memory_seconds = e.cost.unique_bytes() / (options.bandwidth * 1e9);
  if (options.peak > 0) e.compute_seconds = e.cost.flops / (options.peak * 1e9);
  return e;
}

} // namespace kiln::cli
