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

  Stream stream(s.device), host;
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<Checker> checker; // of the device's outputs
  Situation chosen = s;
  chosen.host_reference = {};
  chosen.right = "the default";
  choose_inputs(chosen, [&](const Situation& now) -> const Checker& {
    checker.reset();
    inputs = std::make_unique<Inputs>(now, c.kernel->recorded());
    checker = std::make_unique<Checker>(now, *inputs, c, stream);
    constexpr double slow = 0.5; // seconds; then one launch has to do, as on emulated devices
    checker->run_reference([](double once) { return once < slow; });
    return *checker;
  });
  ArraySet on_host(Device::cpu(), plan, s.arguments, Surroundings::bytes);
  on_host.upload_inputs(host, inputs->contents);
  std::vector<std::vector<unsigned char>> before(plan.blocks.size());
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    before[i] = plan.blocks[i].read ? inputs->contents.blocks[i] : checker->poison_of(i, Pattern::first);
    if (!plan.blocks[i].read && plan.blocks[i].written) on_host.arrays()[i].upload(host, before[i].data());
  }
  ir::interpret(*bound, on_host.words().data(), part);

  // The interpreter's values, sorted if the device's are, and which of them it did not write.
  RowSorter::Blocks interpreted(plan.blocks.size());
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    if (!plan.blocks[i].written) continue;
    interpreted[i].resize(before[i].size());
    on_host.arrays()[i].download(host, interpreted[i].data());
  }
  if (whole) checker->sort(interpreted, Pattern::first);
  const auto judge = [&](const ComparedOutput& output) {
    const std::size_t i = output.block;
    const ReferenceOutput& device = checker->reference_output(i);
    ReferenceOutput right{device.dtype, interpreted[i], {}, device.motion};
    std::vector<unsigned char> values = device.values;
    const auto size = static_cast<std::size_t>(size_of(device.dtype));
    const bool poisoned = !plan.blocks[i].read && whole;
    if (poisoned) right.unwritten.resize(right.values.size() / size);
    for (std::size_t at = 0; at < values.size(); at += size) {
      if (std::memcmp(&right.values[at], &before[i][at], size) != 0) continue;
      // The interpreter runs with one pattern only, so it may have written what equals that.
      if (poisoned) right.unwritten[at / size] = device.unwritten.empty() || device.unwritten[at / size];
      if (!whole) std::memcpy(&values[at], &right.values[at], size); // ignore programs outside of the part
    }
    return compare(right, values, poisoned ? before[i] : std::vector<unsigned char>(),
                   checker->allowance_for(c, output), Strictness::all, output.members, device.unwritten);
  };
  for (const ComparedOutput& output : checker->compared_outputs()) {
    if (output.ignored() || output.declared.compare || (output.sorted && !whole)) continue;
    Verdict v = judge(output);
    if (v.kind == Verdict::Kind::wrong && checker->refine()) v = judge(output);
    if (v.kind != Verdict::Kind::right)
      throw UserError("kernel \"" + c.kernel->recorded().name + "\" with {" + c.config.to_string() +
                      "}: its result on " + to_string(s.device) + " differs from the interpreter's: " +
                      v.error + "; choose a fallback config that is known to work");
  }
  return whole ? "the whole problem" : "programs " + text_of(part) + " of " + text_of(grid);
}

} // namespace kiln::tune
