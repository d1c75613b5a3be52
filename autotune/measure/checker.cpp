// Launches the reference and candidates, reads back outputs, and compares them.
#include <kiln/autotune/measure/checker.h>

#include <kiln/autotune/measure/appended.h>
#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/inject.h>
#include <kiln/autotune/measure/kernel_numbers.h>
#include <kiln/autotune/measure/noise.h>
#include <kiln/autotune/measure/perturb.h>
#include <kiln/autotune/measure/sorted.h>
#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>

namespace kiln::tune {

namespace {

std::unique_ptr<ArraySet> make_set(const Situation& s, const Inputs& inputs, Stream& stream) {
  const Surroundings surroundings = s.device.is_cpu() ? Surroundings::pages : Surroundings::bytes;
  auto set = std::make_unique<ArraySet>(s.device, inputs.plan, s.arguments, surroundings);
  set->upload_inputs(stream, inputs.contents);
  return set;
}

// Returns whether another argument views the same memory with another dtype, so that its bits are no floats
// of the first one's dtype alone.
bool views_differ(const Situation& s, const MemoryPlan& plan, std::size_t argument) {
  for (std::size_t i = 0; i < plan.places.size(); ++i)
    if (plan.places[i].block == plan.places[argument].block &&
        s.arguments[i].dtype != s.arguments[argument].dtype)
      return true;
  return false;
}

// The share of the elements that differ between two launches with equal inputs by more than a sum in another
// order explains.
double share_that_varies(const ReferenceOutput& first, const std::vector<unsigned char>& second) {
  constexpr double much = 0.05;
  const auto size = static_cast<std::size_t>(size_of(first.dtype));
  const Decoder decode(first.dtype);
  std::size_t varying = 0, elements = 0;
  for (std::size_t e = 0; e < second.size() / size; ++e) {
    if (!first.unwritten.empty() && first.unwritten[e]) continue;
    ++elements;
    if (std::memcmp(&first.values[e * size], &second[e * size], size) == 0) continue;
    const double a = decode(&first.values[e * size]), b = decode(&second[e * size]);
    varying += std::abs(a - b) > much * std::max(std::abs(a), std::abs(b)) &&
               (is_float(first.dtype) || std::abs(a - b) > 1);
  }
  return elements ? static_cast<double>(varying) / static_cast<double>(elements) : 0;
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

std::vector<Checker::How> Checker::ways_to_compare(const Situation& s, const MemoryPlan& plan,
                                                   const ir::Kernel& kernel) {
  std::vector<How> how(plan.blocks.size());
  const std::vector<bool> appended = appended_parameters(kernel);
  for (std::size_t i = 0; i < s.arguments.size(); ++i) {
    const Argument& a = s.arguments[i];
    if (plan.places[i].block < 0 || a.readonly) continue;
    const auto block = static_cast<std::size_t>(plan.places[i].block);
    How& h = how[block];
    h.parameter = static_cast<int>(i);
    h.sorted |= appended[i];
    std::int64_t elements = a.bytes / size_of(a.dtype);
    if (a.kind == Argument::Kind::view)
      elements = std::accumulate(a.extents.begin(), a.extents.end(), std::int64_t{1}, std::multiplies<>());
    h.elements =
        std::min(h.elements + static_cast<std::size_t>(elements),
                 static_cast<std::size_t>(plan.blocks[block].bytes / size_of(plan.blocks[block].dtype)));
  }
  for (const OutputCheck& check : s.outputs) {
    const auto parameter = static_cast<std::size_t>(check.parameter);
    if (check.parameter < 0 || parameter >= plan.places.size() || plan.places[parameter].block < 0 ||
        s.arguments[parameter].readonly)
      throw UserError(
          "TunedOptions::outputs names parameter " + std::to_string(check.parameter) + " of kernel \"" +
          kernel.name +
          "\", which is no output: it must be a view or pointer to elements that are not const, and "
          "parameters count from 0");
    How& h = how[static_cast<std::size_t>(plan.places[parameter].block)];
    h.declared = check;
    h.ignored = check.ignored;
    h.sorted |= check.unordered;
  }
  return how;
}

Measurement outcome_of(const Verdict& verdict) {
  if (verdict.kind == Verdict::Kind::right) return {};
  return failed(verdict.kind == Verdict::Kind::not_a_number ? Status::not_a_number : Status::wrong_result,
                verdict.error);
}

Checker::Checker(const Situation& situation, const Inputs& inputs, const LoadedCandidate& reference,
                 Stream& stream, ArraySet* shared)
    : situation_(situation), inputs_(inputs), reference_(reference), stream_(stream),
      own_(shared ? nullptr : make_set(situation, inputs, stream)), set_(shared ? *shared : *own_),
      how_(ways_to_compare(situation, inputs.plan, reference.kernel->recorded())),
      rounding_(rounding_of(reference.kernel->recorded())),
      sums_(std::sqrt(terms_per_element(situation, inputs.plan, reference))) {
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
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i)
    if (const auto& bytes = poison_of(i, pattern); !bytes.empty() && !(i < kept.size() && kept[i]))
      set_.arrays()[i].upload(stream_, bytes.data());
  stream_.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  candidate.launch(stream_, set_.words());
  stream_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Uploads a perturbed copy of each input, one after the other, since inputs may be large.
double Checker::launch_perturbed(double distance, Direction direction, std::uint64_t seed) {
  const MemoryPlan& plan = inputs_.plan;
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    if (!plan.blocks[b].read) continue;
    std::vector<unsigned char> bytes = inputs_.contents.blocks[b];
    for (std::size_t i = 0; i < plan.places.size(); ++i)
      if (plan.places[i].block == static_cast<int>(b) && is_float(situation_.arguments[i].dtype) &&
          !views_differ(situation_, plan, i))
        perturb(std::span(bytes).subspan(static_cast<std::size_t>(plan.places[i].begin),
                                         static_cast<std::size_t>(plan.places[i].bytes)),
                situation_.arguments[i].dtype, distance, direction, seed * plan.places.size() + i);
    set_.arrays()[b].upload(stream_, bytes.data());
  }
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    if (const auto& bytes = poison_of(i, Pattern::second); !bytes.empty())
      set_.arrays()[i].upload(stream_, bytes.data());
  stream_.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  const LoadedCandidate& launched = noisy_.kernel ? noisy_ : reference_;
  launched.launch(stream_, set_.words());
  stream_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The reference with rounding errors; none if it does not compile, such as on a GPU that has no room for it.
void Checker::make_noisy() {
  try {
    noisy_.kernel = std::make_unique<IrKernel>(with_noise(reference_.kernel->recorded()),
                                               pinned_layouts(situation_.arguments));
    noisy_.config = reference_.config;
    noisy_.grid = reference_.grid;
    noisy_.compiled(situation_);
  } catch (const Error&) {
    noisy_.kernel.reset();
  }
}

std::vector<unsigned char> Checker::output(std::size_t block, Pattern pattern) {
  std::vector<unsigned char> values(static_cast<std::size_t>(inputs_.plan.blocks[block].bytes));
  set_.arrays()[block].download(stream_, values.data());
  if (how_[block].sorted) sort_elements(values, inputs_.plan.blocks[block].dtype, poison_of(block, pattern));
  return values;
}

void Checker::keep_first(std::size_t i, std::vector<unsigned char> values) {
  const Block& block = inputs_.plan.blocks[i];
  const auto size = static_cast<std::size_t>(size_of(block.dtype));
  const auto& poisoned = poison_of(i, Pattern::first);
  ReferenceOutput& kept = outputs_[i];
  kept.dtype = block.dtype;
  kept.values = std::move(values);
  const std::size_t elements = kept.values.size() / size;
  kept.motion = Motion(block.dtype, elements);
  if (poisoned.empty()) return;
  kept.unwritten.resize(elements);
  for (std::size_t e = 0; e < elements; ++e)
    kept.unwritten[e] = std::memcmp(&kept.values[e * size], &poisoned[e * size], size) == 0;
}

// An element is unwritten only if it keeps both patterns.
void Checker::keep_second(std::size_t i, const std::vector<unsigned char>& values) {
  const auto size = static_cast<std::size_t>(size_of(inputs_.plan.blocks[i].dtype));
  const auto& poisoned = poison_of(i, Pattern::second);
  ReferenceOutput& kept = outputs_[i];
  for (std::size_t e = 0; e < kept.unwritten.size(); ++e)
    kept.unwritten[e] = kept.unwritten[e] && std::memcmp(&values[e * size], &poisoned[e * size], size) == 0;
  how_[i].varying = share_that_varies(kept, values);
  kept.motion.add(kept.values, values, kept.unwritten, poisoned);
}

Checker::Launched Checker::run_reference(const std::function<bool(double)>& again, int most) {
  outputs_.assign(inputs_.plan.blocks.size(), {});
  Launched launched;
  for (Pattern pattern : patterns) {
    if (pattern != Pattern::first && again && !again(launched.seconds)) return launched;
    const double seconds = launch(reference_, pattern);
    if (launched.launches++ == 0) launched.seconds = seconds;
    for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
      if (!inputs_.plan.blocks[i].written) continue;
      if (pattern == Pattern::first)
        keep_first(i, output(i, pattern));
      else
        keep_second(i, output(i, pattern));
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
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    ReferenceOutput& kept = outputs_[i];
    if (kept.values.empty()) continue;
    kept.values = std::move(blocks[i]);
    if (how_[i].sorted) sort_elements(kept.values, kept.dtype, poison_of(i, Pattern::first));
    const auto& poisoned = poison_of(i, Pattern::first);
    const auto size = static_cast<std::size_t>(size_of(kept.dtype));
    for (std::size_t e = 0; e < kept.unwritten.size(); ++e)
      kept.unwritten[e] = std::memcmp(&kept.values[e * size], &poisoned[e * size], size) == 0;
  }
}

void Checker::move(const std::function<bool(double)>& again, Launched& launched, int most) {
  constexpr double enough_seconds = 1; // of slow launches, one or two have to do
  double spent = 0;
  make_noisy();
  for (int run = 0; run < most && spent < enough_seconds; ++run) {
    if (again && !again(launched.seconds)) return;
    spent += launch_perturbed(rounding_, Direction::either, static_cast<std::uint64_t>(run) + 1);
    ++launched.launches;
    for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i)
      if (inputs_.plan.blocks[i].written && !how_[i].ignored)
        outputs_[i].motion.add(outputs_[i].values, output(i, Pattern::second), outputs_[i].unwritten,
                               poison_of(i, Pattern::second));
  }
  if (!again || again(launched.seconds)) find_steps();
}

// Integers depend on floats if some of them change when all floats change by several percent. Floats that a
// kernel rounds to steps, or chooses by comparing floats, move by a step if the inputs move a little further.
void Checker::find_steps() {
  constexpr double far = 0x1p-4, a_little = 64;
  const bool steps = decides_by_floats(reference_.kernel->recorded());
  for (const bool floats : {false, true}) {
    const auto is_asked = [&](std::size_t i) {
      const Block& block = inputs_.plan.blocks[i];
      return block.written && is_float(block.dtype) == floats && !how_[i].ignored;
    };
    bool any = false;
    for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i)
      any |= is_asked(i);
    if (!any || (floats && !steps)) continue;
    launch_perturbed(floats ? std::min(far, a_little * rounding_) : far, Direction::inward, 0);
    for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
      if (!is_asked(i)) continue;
      ReferenceOutput& kept = outputs_[i];
      Motion moved(kept.dtype, kept.values.size() / static_cast<std::size_t>(size_of(kept.dtype)));
      moved.add(kept.values, output(i, Pattern::second), kept.unwritten, poison_of(i, Pattern::second));
      if (floats)
        kept.motion.step = moved.largest_move();
      else
        kept.motion.from_floats = moved.moved_share() > 0;
    }
  }
}

Allowance Checker::allowance_for(const LoadedCandidate& candidate, std::size_t block) const {
  // Rounding errors of coarse formats are rarely as frequent as those of the perturbed inputs.
  constexpr double coarse_factor = 4, fine_factor = 16, factor_of_sums = 4;
  const double rounding = std::max(rounding_, rounding_of(candidate.kernel->recorded()));
  Allowance a;
  a.rounding = rounding;
  a.sums = sums_;
  a.factor = rounding > coarse_rounding ? coarse_factor * rounding / rounding_
                                        : fine_factor + factor_of_sums * sums_;
  const OutputCheck& declared = how_[block].declared;
  a.relative = declared.relative > 0 || declared.absolute > 0 ? declared.relative
               : is_float(inputs_.plan.blocks[block].dtype)   ? situation_.tolerance
                                                              : 0;
  a.absolute = declared.absolute;
  a.share = declared.share;
  return a;
}

Verdict Checker::check_output(const LoadedCandidate& c, std::size_t i, Pattern pattern,
                              Strictness strictness) {
  std::vector<unsigned char> values = output(i, pattern);
  inject_into_output(c.fault, values, inputs_.plan.blocks[i].dtype);
  if (how_[i].declared.compare) return ask_to_compare(i, values);
  Verdict v = compare(outputs_[i], values, poison_of(i, pattern), allowance_for(c, i), strictness);
  v.compared.parameter = how_[i].parameter;
  v.compared.unordered = how_[i].sorted;
  v.compared.elements = how_[i].elements;
  if (v.kind == Verdict::Kind::right) return v;
  v.error += ", in " + inputs_.plan.name_of(i, situation_.arguments) + (how_[i].sorted ? " (sorted)" : "");
  if (reads_unlike_reference(c, i))
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

Verdict Checker::ask_to_compare(std::size_t i, const std::vector<unsigned char>& values) {
  const Argument& a = situation_.arguments[static_cast<std::size_t>(how_[i].parameter)];
  const std::int64_t data = inputs_.plan.places[static_cast<std::size_t>(how_[i].parameter)].data;
  Verdict v;
  v.compared.parameter = how_[i].parameter;
  v.compared.dtype = outputs_[i].dtype;
  v.compared.elements = v.compared.compared = how_[i].elements;
  v.error = how_[i].declared.compare({.values = values.data() + data,
                                      .reference = outputs_[i].values.data() + data,
                                      .dtype = a.dtype,
                                      .extents = a.extents,
                                      .strides = a.strides,
                                      .bytes = a.bytes});
  if (v.error.empty()) return v;
  v.kind = Verdict::Kind::wrong;
  v.error = "the function that compares parameter " + std::to_string(how_[i].parameter) + " says: " + v.error;
  return v;
}

Checker::Checked Checker::check_launch(const LoadedCandidate& c, Pattern pattern, Strictness strictness,
                                       const std::vector<bool>& kept) {
  Checked checked;
  launch(c, pattern, kept);
  if (situation_.device.is_cpu()) inject_around(c.fault, inputs_.plan, set_);
  for (std::size_t i = 0; i < inputs_.plan.blocks.size(); ++i) {
    if (!inputs_.plan.blocks[i].written || how_[i].ignored || outputs_[i].values.empty()) continue;
    if (how_[i].declared.compare && inputs_.values != Values::usual) continue;
    Verdict v = check_output(c, i, pattern, strictness);
    checked.outputs.push_back(v.compared);
    if (v.kind == Verdict::Kind::right) continue;
    checked.verdict = std::move(v);
    return checked;
  }
  if (std::string damage = set_.damage(stream_, inputs_.contents); !damage.empty())
    checked.verdict = {Verdict::Kind::wrong, damage, {}};
  sort_by_parameter(checked.outputs);
  return checked;
}

Checker::Checked Checker::check(const LoadedCandidate& c, Strictness strictness) {
  Checked checked = check_launch(c, Pattern::first, strictness, {});
  if (checked.verdict.kind != Verdict::Kind::right) return checked;
  std::vector<bool> kept; // with what the first launch has left there
  if (situation_.keeps_ignored)
    for (const How& how : how_)
      kept.push_back(how.ignored);
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
  return std::any_of(how_.begin(), how_.end(), [](const How& how) { return how.ignored; });
}

} // namespace kiln::tune
