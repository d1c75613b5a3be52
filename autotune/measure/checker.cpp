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
  const DType dtype = inputs_.plan.blocks[output.block].dtype;
  a.rounded_once = rounds_once(output.block) && !products && !atomics;
  const OutputCheck& declared = output.declared;
  a.relative = declared.relative > 0 || declared.absolute > 0 ? declared.relative
               : is_float(dtype)                              ? situation_.tolerance
                                                              : 0;
  a.absolute = declared.absolute;
  a.share = declared.share;
  return a;
}

// Whether a block is coarser than what the reference computes it from.
bool Checker::rounds_once(std::size_t block) const {
  const DType dtype = outputs_[block].dtype;
  return is_float(dtype) && spacing_of(dtype) > coarse_rounding && rounding_inside_ > 0 &&
         rounding_inside_ <= coarse_rounding && noisy_.kernel && !situation_.host_reference;
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
  Checked checked = check_launches(c, strictness);
  if (checked.verdict.kind == Verdict::Kind::wrong && refine()) checked = check_launches(c, strictness);
  return checked;
}

Checker::Checked Checker::check_launches(const LoadedCandidate& c, Strictness strictness) {
  kept_.clear();
  Checked checked = check_launch(c, Pattern::first, strictness, {});
  std::vector<bool> kept; // with what the launch before has left there
  if (situation_.keeps_ignored) {
    kept.resize(inputs_.plan.blocks.size());
    for (const ComparedOutput& output : how_)
      if (!is_compared(output.block)) kept[output.block] = true;
  }
  const int launches = situation_.keeps_ignored ? 3 : 2;
  for (int i = 1; i < launches && checked.verdict.kind == Verdict::Kind::right; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    checked = check_launch(c, patterns[i % 2], strictness, kept);
    checking_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (checked.verdict.kind != Verdict::Kind::right && has_ignored() && situation_.keeps_ignored)
      checked.verdict.error += std::string(", in a ") + (i == 1 ? "second" : "third") +
                               " launch, for which ignored outputs hold what the one before has left there";
  }
  return checked;
}

Contents Checker::left_by_reference(const std::vector<bool>& blocks) {
  launch(reference_, Pattern::first);
  Contents left = inputs_.contents;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i]) set_.arrays()[i].download(stream_, left.blocks[i].data());
  return left;
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
