// Launches the reference and candidates, reads back outputs, and compares them.
#include <kiln/autotune/measure/checker.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/inject.h>
#include <kiln/autotune/measure/kernel_numbers.h>
#include <kiln/autotune/measure/noise.h>
#include <kiln/autotune/measure/perturb.h>
#include <kiln/autotune/measure/rounding_depth.h>
#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

namespace kiln::tune {

namespace {

std::unique_ptr<ArraySet> make_set(const Situation& s, const Inputs& inputs, Stream& stream) {
  const Surroundings surroundings = s.device.is_cpu() ? Surroundings::pages : Surroundings::bytes;
  auto set = std::make_unique<ArraySet>(s.device, inputs.plan, s.arguments, surroundings);
  set->upload_inputs(stream, inputs.contents);
  return set;
}

// Marks the elements of a block that move when inputs are perturbed (empty: all); none if it has no floats or
// some argument views it with another dtype, so that its bits are no floats alone.
std::optional<std::vector<bool>> moving_elements(const Situation& s, const MemoryPlan& plan,
                                                 std::size_t block) {
  std::optional<std::vector<bool>> moving;
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    if (plan.places[i].block != static_cast<int>(block)) continue;
    if (!is_float(s.arguments[i].dtype) || s.arguments[i].dtype != plan.blocks[block].dtype)
      return std::nullopt;
    std::vector<bool> members = members_of(s.arguments[i], plan.places[i], plan.blocks[block]);
    if (!moving || members.empty() || moving->empty()) {
      if (!moving || members.empty()) moving = std::move(members);
      continue;
    }
    for (std::size_t e = 0; e < members.size(); ++e)
      (*moving)[e] = (*moving)[e] || members[e];
  }
  return moving;
}

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

// Injects damage that the checks must find.
void inject_around(const std::string& fault, const MemoryPlan& plan, ArraySet& set) {
  if (fault == "guard" && !set.arrays().empty())
    reinterpret_cast<unsigned char*>(set.arrays().back().address())[-1] ^= 1;
  if (fault != "input") return;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    if (!plan.blocks[i].written && plan.blocks[i].bytes > 0)
      *reinterpret_cast<unsigned char*>(set.arrays()[i].address()) ^= 1;
}

} // namespace

Measurement outcome_of(const Verdict& verdict) {
  if (verdict.kind == Verdict::Kind::right) return {};
  return failed(verdict.kind == Verdict::Kind::not_a_number ? Status::not_a_number : Status::wrong_result,
                verdict.error);
}

Checker::Checker(const Situation& situation, const Inputs& inputs, const LoadedCandidate& reference,
                 Stream& stream, ArraySet* shared)
    : situation_(situation), inputs_(inputs), reference_(reference), stream_(stream),
      own_(shared ? nullptr : make_set(situation, inputs, stream)), set_(shared ? *shared : *own_),
      sorter_(situation, inputs.plan, reference.kernel->recorded()),
      how_(tune::compared_outputs(situation, inputs.plan, reference.kernel->recorded())),
      rounding_(std::max(rounding_of(reference.kernel->recorded()), situation.default_rounding)),
      rounding_inside_(
          std::max(rounding_inside(reference.kernel->recorded()), situation.default_rounding_inside)),
      depth_(rounding_depth(reference.kernel->recorded())),
      sums_(std::sqrt(terms_per_element(situation, inputs.plan, reference))) {
  for (ComparedOutput& output : how_)
    output.sorted = sorter_.sorts(static_cast<std::size_t>(output.parameter));
  for (std::size_t b = 0; b < inputs.plan.blocks.size(); ++b) {
    const Block& block = inputs.plan.blocks[b];
    moving_.push_back(block.read ? moving_elements(situation, inputs.plan, b) : std::nullopt);
    rest_.emplace_back();
    if (block.written)
      rest_.back() = elements_of_none(how_, b, static_cast<std::size_t>(block.bytes / size_of(block.dtype)));
  }
  for (Pattern pattern : patterns)
    for (const Block& block : inputs_.plan.blocks) {
      auto& bytes = poison_[static_cast<int>(pattern)].emplace_back();
      if (!block.written || block.read) continue;
      bytes.resize(static_cast<std::size_t>(block.bytes));
      poison(bytes, block.dtype, pattern);
    }
}

double Checker::launch(const LoadedCandidate& candidate, Pattern pattern, const std::vector<bool>& kept) {
  set_.restore(stream_, inputs_.contents, kept);
  return launch_as_it_is(candidate, pattern, kept);
}

double Checker::launch_as_it_is(const LoadedCandidate& candidate, Pattern pattern,
                                const std::vector<bool>& kept) {
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i)
    if (const auto& bytes = poison_of(i, pattern); !bytes.empty() && !(i < kept.size() && kept[i]))
      set_.arrays()[i].upload(stream_, bytes.data());
  stream_.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  candidate.launch(stream_, set_.words());
  stream_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

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

// The second launch, with the other pattern, is needed only if an element holds the pattern that the reference
// wrote on the original inputs: mostly small integers, which may equal the pattern.
Checker::Moved Checker::run_perturbed(double distance, Direction direction, std::uint64_t seed) {
  launch_perturbed(distance, direction, seed, Pattern::second);
  Moved moved{read_back(Pattern::second), {}};
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
  launch_perturbed(distance, direction, seed, Pattern::first);
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

void Checker::sort(RowSorter::Blocks& blocks, Pattern pattern) const {
  sorter_.sort(blocks, [&](std::size_t block) -> const std::vector<unsigned char>& {
    return poison_of(block, pattern);
  });
}

RowSorter::Blocks Checker::read_back(Pattern pattern) {
  RowSorter::Blocks blocks(inputs_.plan.blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!inputs_.plan.blocks[i].written) continue;
    blocks[i].resize(static_cast<std::size_t>(inputs_.plan.blocks[i].bytes));
    set_.arrays()[i].download(stream_, blocks[i].data());
  }
  sort(blocks, pattern);
  return blocks;
}

bool Checker::is_compared(std::size_t block) const {
  return std::any_of(how_.begin(), how_.end(), [&](const ComparedOutput& output) {
    return output.block == block && !output.ignored();
  });
}

void Checker::keep_first(std::size_t i, std::vector<unsigned char> values) {
  const DType dtype = inputs_.plan.blocks[i].dtype;
  const auto& poisoned = poison_of(i, Pattern::first);
  ReferenceOutput& kept = outputs_[i];
  kept.dtype = dtype;
  kept.values = std::move(values);
  kept.motion = Motion(dtype, kept.values.size() / static_cast<std::size_t>(size_of(dtype)));
  if (!poisoned.empty()) kept.unwritten = elements_equal_to(poisoned, kept.values, dtype);
}

// An element is unwritten only if it keeps both patterns.
void Checker::keep_second(std::size_t i, const std::vector<unsigned char>& values) {
  ReferenceOutput& kept = outputs_[i];
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

// Replaces the outputs by those of the function, and lets how far they move be what it is.
void Checker::ask_host() {
  const MemoryPlan& plan = inputs_.plan;
  std::vector<std::vector<unsigned char>> blocks;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    blocks.push_back(plan.blocks[i].read ? inputs_.contents.blocks[i] : poison_of(i, Pattern::first));
  Situation::Places places;
  for (const MemoryPlan::Place& place : plan.places)
    places.emplace_back(place.block, place.data);
  situation_.host_reference(blocks, places, situation_.arguments);
  sort(blocks, Pattern::first);
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    ReferenceOutput& kept = outputs_[i];
    launched_.push_back({kept.dtype, {}, kept.unwritten, {}});
    if (kept.values.empty()) continue;
    launched_[i].values = std::exchange(kept.values, std::move(blocks[i]));
    // The function is called with one pattern only, so it may have written what equals that.
    if (!kept.unwritten.empty())
      keep_common(kept.unwritten, elements_equal_to(poison_of(i, Pattern::first), kept.values, kept.dtype));
  }
}

void Checker::move(const std::function<bool(double)>& again, Launched& launched, int most) {
  constexpr double enough_seconds = 1; // of slow launches, one or two have to do
  double spent = 0;
  make_noisy();
  for (int run = 0; run < most && spent < enough_seconds; ++run) {
    if (again && !again(launched.seconds)) return;
    const auto begin = std::chrono::steady_clock::now();
    const Moved moved = run_perturbed(rounding_, Direction::either, static_cast<std::uint64_t>(run) + 1);
    spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++launched.launches;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (is_compared(i)) outputs_[i].motion.add(run_of(i, moved));
  }
  if (!again || again(launched.seconds)) find_jumps();
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
  const auto can_grow = [this](std::size_t i) {
    return is_compared(i) && is_float(outputs_[i].dtype) && outputs_[i].motion.known();
  };
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

// The factors are about three times what right configs need. Of the bounds that result, right configs used at
// most 0.28 (a product of matrices on the CPU next to the interpreter, layernorm and root mean squares in
// loops over columns), in sums of 16000 terms 0.11, in 16-bit accumulators 0.22, and usually less than 0.1.
// These are the largest shares in about 1000 pairs of the random kernels of the tests
// (tests/autotune/measure/verdict_kernels.cpp) and in their comparison with the interpreter: tiles of 4 to
// 4096 columns, sums as trees and one after the other, atomics.
Allowance Checker::allowance_for(const LoadedCandidate& candidate, const ComparedOutput& output) const {
  // Rounding errors of coarse formats are rarely as frequent as those of the perturbed inputs. If only the
  // inputs are coarse, those of the kernel are much smaller.
  constexpr double coarse_factor = 4, coarse_input_factor = 1, fine_factor = 6, least_roundings = 4;
  // Rounding errors of sums over products and by atomics are not all simulated (noise.h).
  constexpr double products_factor = 0.25, unknown_factor = 2, products_roundings = 0.5;
  const ir::Kernel &reference_kernel = reference_.kernel->recorded(), &kernel = candidate.kernel->recorded();
  const bool products = has_products(reference_kernel) || has_products(kernel);
  const bool atomics = adds_floats_by_atomics(reference_kernel) || adds_floats_by_atomics(kernel);
  const bool coarse = rounding_inside_ > coarse_rounding;
  Allowance a;
  a.rounding = rounding_;
  a.sums = sums_;
  a.depth = situation_.host_reference || situation_.default_rounding > 0 ? 2 : depth_;
  if (coarse)
    a.factor = coarse_factor;
  else if (rounding_ > coarse_rounding)
    a.factor = coarse_input_factor;
  else
    a.factor = fine_factor + sums_ * (!noisy_.kernel ? unknown_factor : products ? products_factor : 0);
  a.roundings = least_roundings + (products || atomics || !noisy_.kernel ? products_roundings * sums_ : 0);
  const OutputCheck& declared = output.declared;
  a.relative = declared.relative > 0 || declared.absolute > 0      ? declared.relative
               : is_float(inputs_.plan.blocks[output.block].dtype) ? situation_.tolerance
                                                                   : 0;
  a.absolute = declared.absolute;
  a.share = declared.share;
  return a;
}

Verdict Checker::check_output(const LoadedCandidate& c, const ComparedOutput& output,
                              const std::vector<unsigned char>& values, Pattern pattern,
                              Strictness strictness) const {
  if (output.declared.compare) return ask_to_compare(output, values);
  Verdict v =
      compare(outputs_[output.block], values, poison_of(output.block, pattern), allowance_for(c, output),
              strictness, output.members, kept_.empty() ? std::vector<bool>() : kept_[output.block]);
  v.compared.parameter = output.parameter;
  v.compared.unordered = output.sorted;
  if (v.kind == Verdict::Kind::right) return v;
  v.error +=
      ", in " + inputs_.plan.name_of(output.block, situation_.arguments) + (output.sorted ? " (sorted)" : "");
  if (reads_unlike_reference(c, output.block))
    v.error +=
        ", which this config reads, while the default only writes it, so that it starts with arbitrary "
        "values: let the first seed read it, too, or no config";
  return v;
}

// Whether the candidate reads what the reference only writes, so that it has no contents of the caller.
bool Checker::reads_unlike_reference(const LoadedCandidate& c, std::size_t block) const {
  if (inputs_.plan.blocks[block].read) return false;
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(c.kernel->recorded());
  for (std::size_t i = 0; i < uses.size() && i < inputs_.plan.places.size(); ++i)
    if (inputs_.plan.places[i].block == static_cast<int>(block) && uses[i].read) return true;
  return false;
}

Verdict Checker::check_rest(std::size_t block, const std::vector<unsigned char>& values,
                            Pattern pattern) const {
  const auto size = static_cast<std::size_t>(size_of(outputs_[block].dtype));
  const std::vector<unsigned char>& poison = poison_of(block, pattern);
  const std::vector<unsigned char>& before = poison.empty() ? inputs_.contents.blocks[block] : poison;
  for (std::size_t i = 0; i < rest_[block].size(); ++i)
    if (rest_[block][i] && std::memcmp(&values[i * size], &before[i * size], size) != 0)
      return {Verdict::Kind::wrong,
              "it wrote between the elements of " + inputs_.plan.name_of(block, situation_.arguments),
              {}};
  return {};
}

Verdict Checker::ask_to_compare(const ComparedOutput& output,
                                const std::vector<unsigned char>& values) const {
  const Argument& a = situation_.arguments[static_cast<std::size_t>(output.parameter)];
  const std::int64_t data = inputs_.plan.places[static_cast<std::size_t>(output.parameter)].data;
  Verdict v;
  v.compared.parameter = output.parameter;
  v.compared.dtype = outputs_[output.block].dtype;
  v.compared.elements = v.compared.compared = output.elements;
  v.error = output.declared.compare({.values = values.data() + data,
                                     .reference = outputs_[output.block].values.data() + data,
                                     .dtype = a.dtype,
                                     .extents = a.extents,
                                     .strides = a.strides,
                                     .bytes = a.bytes});
  if (v.error.empty()) return v;
  v.kind = Verdict::Kind::wrong;
  v.error = "the function that compares parameter " + std::to_string(output.parameter) + " says: " + v.error;
  return v;
}

Checker::Checked Checker::check_launch(const LoadedCandidate& c, Pattern pattern, Strictness strictness,
                                       const std::vector<bool>& kept) {
  Checked checked;
  launch(c, pattern, kept);
  if (situation_.device.is_cpu()) inject_around(c.fault, inputs_.plan, set_);
  RowSorter::Blocks values = read_back(pattern);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (is_compared(i)) inject_into_output(c.fault, values[i], inputs_.plan.blocks[i].dtype);
  for (const ComparedOutput& output : how_) {
    if (output.ignored() || outputs_[output.block].values.empty()) continue;
    if (output.declared.compare && inputs_.values != Values::usual) continue;
    Verdict v = check_output(c, output, values[output.block], pattern, strictness);
    checked.outputs.push_back(v.compared);
    if (v.kind == Verdict::Kind::right) continue;
    checked.verdict = std::move(v);
    return checked;
  }
  kept_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto& poisoned = poison_of(i, pattern); is_compared(i) && !poisoned.empty())
      kept_[i] = elements_equal_to(poisoned, values[i], outputs_[i].dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (outputs_[i].values.empty() || (!kept.empty() && kept[i])) continue;
    Verdict v = check_rest(i, values[i], pattern);
    if (v.kind == Verdict::Kind::right) continue;
    checked.verdict = std::move(v);
    return checked;
  }
  if (std::string damage = set_.damage(stream_, inputs_.contents); !damage.empty())
    checked.verdict = {Verdict::Kind::wrong, damage, {}};
  return checked;
}

Checker::Checked Checker::check(const LoadedCandidate& c, Strictness strictness) {
  Checked checked = check_twice(c, strictness);
  if (checked.verdict.kind == Verdict::Kind::wrong && refine()) checked = check_twice(c, strictness);
  return checked;
}

Checker::Checked Checker::check_twice(const LoadedCandidate& c, Strictness strictness) {
  kept_.clear();
  Checked checked = check_launch(c, Pattern::first, strictness, {});
  if (checked.verdict.kind != Verdict::Kind::right) return checked;
  std::vector<bool> kept; // with what the first launch has left there
  if (situation_.keeps_ignored) {
    kept.resize(inputs_.plan.blocks.size());
    for (const ComparedOutput& output : how_)
      if (!is_compared(output.block)) kept[output.block] = true;
  }
  const auto begin = std::chrono::steady_clock::now();
  checked = check_launch(c, Pattern::second, strictness, kept);
  checking_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (checked.verdict.kind != Verdict::Kind::right && has_ignored() && situation_.keeps_ignored)
    checked.verdict.error +=
        ", in a second launch, for which ignored outputs hold what the first has left there";
  return checked;
}

Verdict Checker::repeat(const LoadedCandidate& c, double seconds) {
  Verdict verdict;
  kept_.clear();
  const auto begin = std::chrono::steady_clock::now();
  double spent = 0, longest = checking_seconds_;
  for (int i = 0; verdict.kind == Verdict::Kind::right && spent + longest < seconds; ++i) {
    verdict = check_launch(c, patterns[i % 2], Strictness::all, {}).verdict;
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    longest = std::max(longest, now - spent);
    spent = now;
  }
  if (verdict.kind != Verdict::Kind::right)
    verdict.error += ", in some of many launches with the same inputs, as if its programs raced";
  return verdict;
}

bool Checker::has_ignored() const {
  return std::any_of(how_.begin(), how_.end(), [](const ComparedOutput& o) { return o.ignored(); });
}

} // namespace kiln::tune
