// Launches the reference on its inputs and on perturbed ones, and records how far its outputs move.
#include <kiln/autotune/measure/checker.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/kernel_numbers.h>
#include <kiln/autotune/measure/noise.h>
#include <kiln/autotune/measure/perturb.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

namespace kiln::tune {

namespace {

// The share of the elements that differ between two launches with equal inputs by more than a sum in another
// order explains.
double share_that_varies(const ReferenceOutput& first, const std::vector<unsigned char>& second,
                         const std::vector<bool>& members) {
  constexpr double much = 0.05;
  const auto size = static_cast<std::size_t>(size_of(first.dtype));
  const Decoder decode(first.dtype);
  std::size_t varying = 0, elements = 0;
  for (std::size_t e = 0; e < second.size() / size; ++e) {
    if (!members.empty() && !members[e]) continue;
    if (!first.unwritten.empty() && first.unwritten[e]) continue;
    ++elements;
    if (std::memcmp(&first.values[e * size], &second[e * size], size) == 0) continue;
    const double a = decode(&first.values[e * size]), b = decode(&second[e * size]);
    varying += std::abs(a - b) > much * std::max(std::abs(a), std::abs(b)) &&
               (is_float(first.dtype) || std::abs(a - b) > 1);
  }
  return elements ? static_cast<double>(varying) / static_cast<double>(elements) : 0;
}

void keep_common(std::vector<bool>& marks, const std::vector<bool>& others) {
  for (std::size_t e = 0; e < marks.size(); ++e)
    marks[e] = marks[e] && others[e];
}

} // namespace

// Uploads a perturbed copy of each input, one after the other, since inputs may be large. Elements that
// several arguments share move once.
double Checker::launch_perturbed(double distance, Direction direction, std::uint64_t seed, Pattern pattern) {
  const MemoryPlan& plan = inputs_.plan;
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    if (!plan.blocks[b].read) continue;
    std::vector<unsigned char> bytes = inputs_.contents.blocks[b];
    if (moving_[b] && distance > 0)
      perturb(bytes, plan.blocks[b].dtype, distance, direction, seed * plan.blocks.size() + b, *moving_[b]);
    set_.arrays()[b].upload(stream_, bytes.data());
  }
  return launch_as_it_is(noisy_.kernel ? noisy_ : reference_, pattern, {});
}

// The second launch, with the other pattern, is needed only if an element holds the pattern that the
// reference wrote on the original inputs: mostly small integers, which may equal the pattern.
Checker::Moved Checker::run_perturbed(double distance, Direction direction, std::uint64_t seed) {
  const double seconds = launch_perturbed(distance, direction, seed, Pattern::second);
  Moved moved{read_back(Pattern::second), {}, seconds};
  moved.unwritten.resize(moved.values.size());
  bool ambiguous = false;
  for (std::size_t i = 0; i < moved.values.size(); ++i) {
    const auto& poisoned = poison_of(i, Pattern::second);
    if (!is_compared(i) || poisoned.empty()) continue;
    moved.unwritten[i] = elements_equal_to(poisoned, moved.values[i], outputs_[i].dtype);
    const std::vector<bool>& unwritten = launched(i).unwritten;
    for (std::size_t e = 0; e < unwritten.size() && !ambiguous; ++e)
      ambiguous = moved.unwritten[i][e] && !unwritten[e];
  }
  if (!ambiguous) return moved;
  moved.seconds += launch_perturbed(distance, direction, seed, Pattern::first);
  const RowSorter::Blocks values = read_back(Pattern::first);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!moved.unwritten[i].empty())
      keep_common(moved.unwritten[i],
                  elements_equal_to(poison_of(i, Pattern::first), values[i], outputs_[i].dtype));
  return moved;
}

// The reference with rounding errors; none if it does not compile, such as on a GPU that has no room for it.
void Checker::make_noisy() {
  try {
    noisy_.kernel = std::make_unique<IrKernel>(
        with_noise(reference_.kernel->recorded(), reference_.config, sums_ * sums_),
        pinned_layouts(situation_.arguments));
    noisy_.config = reference_.config;
    noisy_.grid = reference_.grid;
    noisy_.compiled(situation_);
  } catch (const Error&) {
    noisy_.kernel.reset();
  }
}

void Checker::keep_first(std::size_t i, std::vector<unsigned char> values) {
  const DType dtype = inputs_.plan.blocks[i].dtype;
  const auto& poisoned = poison_of(i, Pattern::first);
  ReferenceOutput& kept = outputs_[i];
  kept.dtype = dtype;
  kept.values = std::move(values);
  kept.motion = Motion(dtype, kept.values.size() / static_cast<std::size_t>(size_of(dtype)));
  if (!poisoned.empty()) kept.unwritten = elements_equal_to(poisoned, kept.values, dtype);
  kept.one_pattern = true;
}

// An element is unwritten only if it keeps both patterns.
void Checker::keep_second(std::size_t i, const std::vector<unsigned char>& values) {
  ReferenceOutput& kept = outputs_[i];
  kept.one_pattern = false;
  if (!kept.unwritten.empty())
    keep_common(kept.unwritten, elements_equal_to(poison_of(i, Pattern::second), values, kept.dtype));
  for (ComparedOutput& output : how_)
    if (output.block == i) output.varying = share_that_varies(kept, values, output.members);
  kept.motion.add_repeat({kept.values, values, kept.unwritten, kept.unwritten});
}

Checker::Launched Checker::run_reference(const std::function<bool(double)>& again, int most) {
  outputs_.assign(inputs_.plan.blocks.size(), {});
  launched_.clear();
  refined_ = false;
  Launched launched;
  for (Pattern pattern : patterns) {
    if (pattern != Pattern::first && again && !again(launched.seconds)) return launched;
    const double seconds = launch(reference_, pattern);
    if (launched.launches++ == 0) launched.seconds = seconds;
    RowSorter::Blocks values = read_back(pattern);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!inputs_.plan.blocks[i].written) continue;
      if (pattern == Pattern::first)
        keep_first(i, std::move(values[i]));
      else
        keep_second(i, values[i]);
    }
    const std::string damage = set_.damage(stream_, inputs_.contents);
    if (!damage.empty()) throw UserError("kernel \"" + reference_.kernel->recorded().name + "\": " + damage);
  }
  try {
    move(again, launched, most);
  } catch (const Error&) { // an assertion of the kernel fails on these inputs: the runs so far have to do
  }
  set_.upload_inputs(stream_, inputs_.contents);
  for (ReferenceOutput& output : outputs_)
    if (!output.values.empty()) output.motion.settle(output.values);
  if (situation_.host_reference) ask_host();
  return launched;
}

// Returns what the function writes, sorted.
RowSorter::Blocks Checker::call_host(Pattern pattern) const {
  const MemoryPlan& plan = inputs_.plan;
  RowSorter::Blocks blocks;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    blocks.push_back(plan.blocks[i].read ? inputs_.contents.blocks[i] : poison_of(i, pattern));
  Situation::Places places;
  for (const MemoryPlan::Place& place : plan.places)
    places.emplace_back(place.block, place.data);
  situation_.host_reference(blocks, places, situation_.arguments);
  sort(blocks, pattern);
  return blocks;
}

// Replaces the outputs by those of the function, and lets how far they move be what it is. The function is
// called with a second pattern if an element holds the first one that the default has written.
void Checker::ask_host() {
  RowSorter::Blocks blocks = call_host(Pattern::first);
  bool ambiguous = false;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    ReferenceOutput& kept = outputs_[i];
    launched_.push_back({kept.dtype, {}, kept.unwritten, {}});
    if (kept.values.empty()) continue;
    launched_[i].values = std::exchange(kept.values, std::move(blocks[i]));
    if (kept.unwritten.empty()) continue;
    kept.unwritten = elements_equal_to(poison_of(i, Pattern::first), kept.values, kept.dtype);
    for (std::size_t e = 0; e < kept.unwritten.size() && !ambiguous; ++e)
      ambiguous = kept.unwritten[e] && !launched_[i].unwritten[e];
  }
  if (!ambiguous) return;
  blocks = call_host(Pattern::second);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (ReferenceOutput& kept = outputs_[i]; !kept.unwritten.empty())
      keep_common(kept.unwritten, elements_equal_to(poison_of(i, Pattern::second), blocks[i], kept.dtype));
}

void Checker::move(const std::function<bool(double)>& again, Launched& launched, int most) {
  constexpr double enough_seconds = 1; // of slow launches, one or two have to do
  double spent = 0;
  make_noisy();
  for (int run = 0; run < most && spent < enough_seconds; ++run) {
    if (again && !again(launched.seconds)) return;
    const Moved moved = run_perturbed(rounding_, Direction::either, static_cast<std::uint64_t>(run) + 1);
    spent += moved.seconds;
    ++launched.launches;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (is_compared(i)) outputs_[i].motion.add(run_of(i, moved));
  }
  if (!again || again(launched.seconds)) find_jumps();
  if (!again || again(launched.seconds)) find_roundings();
}

// Counts how many elements of outputs that are coarser than the computation move by its rounding errors. If
// inputs are as coarse, perturbing them would move nearly all.
void Checker::find_roundings() {
  std::vector<std::size_t> coarse;
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (is_compared(i) && rounds_once(i)) coarse.push_back(i);
  if (coarse.empty()) return;
  const double distance = rounding_ > coarse_rounding ? 0 : rounding_;
  const Moved moved = run_perturbed(distance, Direction::either, static_cast<std::uint64_t>(perturbed_runs));
  for (std::size_t i : coarse)
    outputs_[i].motion.add_rounding(run_of(i, moved));
}

// What the reference wrote into a block, even if a function has replaced it.
const ReferenceOutput& Checker::launched(std::size_t block) const {
  return launched_.empty() ? outputs_[block] : launched_[block];
}

Motion::Run Checker::run_of(std::size_t i, const Moved& moved) const {
  return {launched(i).values, moved.values[i], launched(i).unwritten, moved.unwritten[i]};
}

bool Checker::refine() {
  constexpr int runs = 12;
  constexpr double most_seconds = 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto can_grow = [this](std::size_t i) { return is_compared(i) && outputs_[i].motion.can_be_finer(); };
  bool any = false;
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    any |= can_grow(i);
  if (!any || std::exchange(refined_, true)) return false;
  double spent = 0, longest = 0;
  try {
    for (int run = 0; run < runs && spent + longest < most_seconds; ++run) {
      const Moved moved =
          run_perturbed(rounding_, Direction::either, static_cast<std::uint64_t>(perturbed_runs + run) + 1);
      for (std::size_t i = 0; i < outputs_.size(); ++i)
        if (can_grow(i)) outputs_[i].motion.add_finer(run_of(i, moved));
      const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      longest = std::max(longest, now - spent);
      spent = now;
    }
  } catch (const Error&) { // as in run_reference
  }
  set_.upload_inputs(stream_, inputs_.contents);
  return true;
}

// Counts how many elements jump if the inputs move a little further, where floats decide. If many do, a run
// without perturbed inputs says more about the reason. Integers that have not moved at all depend on floats
// if some of them change when all floats change by several percent.
void Checker::find_jumps() {
  constexpr double far = 0x1p-4, times = 64;
  const bool decides = decides_by_floats(reference_.kernel->recorded());
  std::vector<std::size_t> asked, integers;
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
    const Block& block = inputs_.plan.blocks[i];
    if (is_compared(i) && (decides || !is_float(block.dtype))) asked.push_back(i);
  }
  if (asked.empty()) return;
  Moved moved = run_perturbed(std::min(far, times * rounding_), Direction::inward, 0);
  bool unclear = false;
  for (std::size_t i : asked) {
    Motion& motion = outputs_[i].motion;
    motion.add_further(run_of(i, moved), times);
    unclear |= motion.is_unclear();
    if (!is_float(outputs_[i].dtype) && !motion.moves() && motion.further_jumps() == 0) integers.push_back(i);
  }
  if (unclear && noisy_.kernel) {
    moved = run_perturbed(0, Direction::either, 0);
    for (std::size_t i : asked)
      outputs_[i].motion.add_internal(run_of(i, moved));
  }
  if (integers.empty()) return;
  moved = run_perturbed(far, Direction::inward, 0);
  for (std::size_t i : integers) {
    ReferenceOutput& kept = outputs_[i];
    Motion motion(kept.dtype, kept.values.size() / static_cast<std::size_t>(size_of(kept.dtype)));
    motion.add(run_of(i, moved));
    kept.motion.from_floats = motion.moves();
  }
}

} // namespace kiln::tune
