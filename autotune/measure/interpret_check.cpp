// Compares a candidate's result on the device with the interpreter of tile IR.
#include <kiln/autotune/measure/trial_runner.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/interpreter.h>

#include <algorithm>
#include <cstring>

namespace kiln::tune {

namespace {

// How much slower the interpreter is than the code that CostModel predicts: 300 to 2000 times on samples.
constexpr double slowness = 1000;
constexpr double most_program_seconds = 10; // the most for one program; above this the check is skipped

using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes) {
  std::int64_t all = 1;
  for (std::int64_t s : sizes)
    if (__builtin_mul_overflow(all, s, &all)) return INT64_MAX;
  return all;
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (std::int64_t s : sizes)
    text += (text.empty() ? "" : " x ") + std::to_string(s);
  return text;
}

// Returns whether programs do not depend on each other, so that some of them can be checked alone.
bool programs_stand_alone(const ir::Kernel& kernel) {
  bool alone = true;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    alone &=
        !op.is(ir::Opcode::NumPrograms) && !op.is(ir::Opcode::AtomicRmw) && !op.is(ir::Opcode::AtomicCas);
  });
  return alone;
}

// Returns a part of the grid that takes about `seconds_enough`: the first programs, at least two along each
// axis if time allows.
Sizes sample_of(const Sizes& grid, double program_seconds, double seconds_enough) {
  Sizes sample(grid.size(), 1);
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      Sizes larger = sample;
      larger[i] = std::min(grid[i], 2 * sample[i]);
      if (larger[i] == sample[i] || program_seconds * static_cast<double>(product(larger)) > seconds_enough)
        continue;
      sample = larger;
      grown = true;
    }
  }
  return sample;
}

} // namespace

std::string interpret_check(const LoadedCandidate& c, const Situation& s, double seconds_enough) {
  const MemoryPlan plan = plan_memory(s.arguments, c.kernel->recorded());
  const std::vector<std::uint64_t> imagined = imagined_words(plan, s.arguments);
  const auto code = c.kernel->compile(s.device, c.config, imagined);
  const auto bound = c.kernel->bound(c.config, imagined);
  Sizes grid;
  if (c.grid)
    grid = {c.grid->x, c.grid->y, c.grid->z};
  else
    grid = ir::grid_of(*bound, imagined.data());
  const std::int64_t programs = product(grid);
  if (programs == 0) return "nothing: the grid is empty";
  const double program_seconds = slowness * 1e-9 * code->cost.program_ns(imagined.data());
  Sizes part = grid;
  if (!(program_seconds * static_cast<double>(programs) <= seconds_enough)) {
    if (!programs_stand_alone(c.kernel->recorded()))
      return "nothing: the interpreter would take too long, and programs depend on each other";
    if (!(program_seconds <= most_program_seconds))
      return "nothing: one program would take the interpreter too long";
    part = sample_of(grid, program_seconds, seconds_enough);
  }
  const bool whole = part == grid;

  const Contents contents = make_contents(plan, s.arguments, s.seed);
  Stream stream(s.device), host;
  ArraySet on_device(s.device, plan, s.arguments, Surroundings::bytes);
  ArraySet on_host(Device::cpu(), plan, s.arguments, Surroundings::bytes);
  on_device.upload_inputs(stream, contents);
  on_host.upload_inputs(host, contents);
  std::vector<std::vector<unsigned char>> before(plan.blocks.size());
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    before[i].resize(static_cast<std::size_t>(plan.blocks[i].bytes));
    if (plan.blocks[i].read) {
      before[i] = contents.blocks[i];
      continue;
    }
    poison(before[i], plan.blocks[i].dtype, Pattern::first);
    on_device.arrays()[i].upload(stream, before[i].data());
    on_host.arrays()[i].upload(host, before[i].data());
  }
  c.kernel->launch(stream, c.config, c.grid ? &*c.grid : nullptr, on_device.words());
  stream.synchronize();
  ir::interpret(*bound, on_host.words().data(), part);

  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& block = plan.blocks[i];
    if (!block.written) continue;
    ReferenceOutput right{block.dtype, std::vector<unsigned char>(before[i].size()), {}};
    std::vector<unsigned char> values(before[i].size());
    on_host.arrays()[i].download(host, right.values.data());
    on_device.arrays()[i].download(stream, values.data());
    const auto size = static_cast<std::size_t>(size_of(block.dtype));
    for (std::size_t at = 0; !whole && at < values.size(); at += size) // ignore programs outside of the part
      if (std::memcmp(&right.values[at], &before[i][at], size) == 0)
        std::memcpy(&values[at], &right.values[at], size);
    const double tolerance = s.tolerance > 0 && is_float(block.dtype)
                                 ? s.tolerance
                                 : tolerance_of(c.kernel->recorded(), block.dtype);
    const Verdict v = compare(right, values, {}, tolerance);
    if (v.kind != Verdict::Kind::right)
      throw UserError("kernel \"" + c.kernel->recorded().name + "\" with {" + c.config.to_string() +
                      "}: its result on " + to_string(s.device) + " differs from the interpreter's: " +
                      v.error + "; choose a fallback config that is known to work");
  }
  return whole ? "the whole problem" : "programs " + text_of(part) + " of " + text_of(grid);
}

} // namespace kiln::tune
