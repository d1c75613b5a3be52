// Implements the check of winners on other values, smaller arrays, other scalars and later launches.
#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/launch_chain.h>
#include <kiln/autotune/measure/noise.h>
#include <kiln/autotune/measure/smaller_extents.h>
#include <kiln/autotune/measure/steering.h>
#include <kiln/autotune/measure/verify.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::tune {

namespace {

// Marks what steers in either kernel: indices that one of them reads may be data to the other.
std::vector<bool> steering_of_both(const std::vector<Argument>& arguments, const ir::Kernel& a,
                                   const ir::Kernel& b) {
  std::vector<bool> steers(arguments.size());
  for (const ir::Kernel* kernel : {&a, &b}) {
    const std::vector<Steering> contents = steering_of(*kernel);
    const std::vector<bool> scalars = steering_scalars(*kernel);
    for (std::size_t i = 0; i < steers.size() && i < contents.size(); ++i)
      steers[i] = steers[i] || contents[i].any() || scalars[i];
  }
  return steers;
}

// Whether some element lies between an extent and the smaller one, as the length of a whole row does.
bool may_be_lengths(const Argument& a, const std::map<std::int64_t, std::int64_t>& extents) {
  if (a.dtype == DType::Bool || !a.fill.bytes) return false;
  const std::int64_t size = size_of(a.dtype);
  const std::size_t bytes = a.fill.bytes->size();
  for (std::size_t at = a.fill.first; at + static_cast<std::size_t>(size) <= bytes;
       at += static_cast<std::size_t>(size)) {
    const auto value = static_cast<std::int64_t>(ir::load_cell(a.dtype, a.fill.bytes->data() + at));
    const auto next = extents.lower_bound(value); // the least extent that is not below the value
    if (next != extents.end() && value > next->second) return true;
  }
  return false;
}

std::optional<std::uint64_t> other_integer(const Argument& a) {
  const int bits = 8 * size_of(a.dtype);
  const auto value = is_unsigned(a.dtype) || bits == 64
                         ? static_cast<std::int64_t>(a.word)
                         : static_cast<std::int64_t>(a.word << (64 - bits)) >> (64 - bits);
  if (a.dtype == DType::Bool || value == 0 || value == 1) return (a.word & 1) ^ 1;
  if (value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value - (value + 3) / 4);
}

std::optional<std::uint64_t> other_float(const Argument& a) {
  constexpr double factor = 0.73;
  const auto value = Decoder(a.dtype)(reinterpret_cast<const unsigned char*>(&a.word));
  if (!std::isfinite(value)) return std::nullopt;
  return scalar_argument(a.dtype, value == 0 ? factor : value * factor).word;
}

bool asks_user(const std::vector<OutputCheck>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const OutputCheck& check) { return static_cast<bool>(check.compare); });
}

Values values_of(Twist twist) {
  return twist == Twist::special ? Values::special : twist == Twist::tiny ? Values::tiny : Values::usual;
}

} // namespace

const char* name(Twist twist) {
  switch (twist) {
  case Twist::special: return "special";
  case Twist::tiny: return "tiny";
  case Twist::ragged: return "ragged";
  case Twist::shorter: return "shorter";
  case Twist::scalars: return "scalars";
  default: return "repeated";
  }
}

const char* words_of(Twist twist) {
  switch (twist) {
  case Twist::special: return "inputs with NaN and infinities";
  case Twist::tiny: return "inputs with zeros, subnormal numbers, and other signs and magnitudes";
  case Twist::ragged: return "arrays that are a little smaller";
  case Twist::shorter: return "smaller arrays, whose last tiles are short";
  case Twist::scalars: return "other values of scalars";
  default: return "arrays as an earlier launch has left them";
  }
}

std::optional<Twist> parse_twist(std::string_view text) {
  for (Twist twist : all_twists)
    if (text == name(twist)) return twist;
  return std::nullopt;
}

std::optional<std::vector<Argument>> ragged(std::vector<Argument> arguments, const std::vector<bool>& steers,
                                            const Config* config) {
  const std::map<std::int64_t, std::int64_t> extents = smaller_extents(arguments, config);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Argument& a = arguments[i];
    if (a.kind == Argument::Kind::pointer) return std::nullopt;
    if (a.kind != Argument::Kind::view) continue;
    const bool given = a.fill.kind == Fill::Kind::bytes;
    if (a.fill.kind == Fill::Kind::range || (given && !is_float(a.dtype) && steers[i])) return std::nullopt;
    if (given && !is_float(a.dtype) && may_be_lengths(a, extents)) return std::nullopt;
    const std::int64_t low = bytes_of(a, 0).low;
    for (std::int64_t& extent : a.extents)
      extent = extents.at(extent);
    if (given) a.fill.first += static_cast<std::size_t>(bytes_of(a, 0).low - low);
  }
  for (Argument& a : arguments) {
    const auto extent = extents.find(static_cast<std::int64_t>(a.word));
    if (a.kind == Argument::Kind::scalar && !a.as_given && is_integer(a.dtype) && extent != extents.end())
      a.word = static_cast<std::uint64_t>(extent->second);
  }
  const bool changes = std::any_of(extents.begin(), extents.end(),
                                   [](const auto& extent) { return extent.first != extent.second; });
  return changes ? std::optional(std::move(arguments)) : std::nullopt;
}

std::optional<std::vector<Argument>> with_other_scalars(std::vector<Argument> arguments,
                                                        const std::vector<bool>& steers) {
  bool any = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Argument& a = arguments[i];
    if (a.kind != Argument::Kind::scalar || a.as_given || steers[i]) continue;
    const auto word = is_float(a.dtype) ? other_float(a) : other_integer(a);
    if (!word) continue;
    a.word = *word;
    any = true;
  }
  return any ? std::optional(std::move(arguments)) : std::nullopt;
}

bool applies(Twist twist, const std::vector<Argument>& arguments, const std::vector<OutputCheck>& outputs,
             const ir::Kernel& kernel) {
  switch (twist) {
  case Twist::special:
    return std::any_of(arguments.begin(), arguments.end(), [](const Argument& a) {
      return a.kind != Argument::Kind::scalar && is_float(a.dtype);
    });
  case Twist::tiny: return true;
  case Twist::ragged:
  case Twist::shorter: return ragged(arguments, steering_of_both(arguments, kernel, kernel)).has_value();
  case Twist::scalars:
    return !asks_user(outputs) &&
           with_other_scalars(arguments, steering_of_both(arguments, kernel, kernel)).has_value();
  default: {
    const auto updated = updated_blocks(arguments, outputs, plan_memory(arguments, kernel), kernel);
    return !asks_user(outputs) && std::find(updated.begin(), updated.end(), true) != updated.end();
  }
  }
}

namespace {

// The reference on some contents, with its outputs.
struct Expected {
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<Checker> checker;
};

class Verifier {
public:
  Verifier(const LoadedCandidate& reference, Situation situation, double seconds)
      : reference_(reference), situation_(std::move(situation)), stream_(situation_.device),
        seconds_(seconds) {}

  // Returns why there is nothing to compare, or an empty text.
  std::string run_reference(Values values) {
    auto inputs = std::make_unique<Inputs>(situation_, reference_.kernel->recorded(), values);
    if (!has_room(*inputs, 1)) return "there is not enough memory";
    add(std::move(inputs));
    return {};
  }

  // The same for the second launch and the third.
  std::string run_reference_again() {
    constexpr int launches = 3;
    const ir::Kernel& kernel = reference_.kernel->recorded();
    const Inputs first(situation_, kernel);
    if (!has_room(first, launches)) return "there is not enough memory";
    const std::vector<bool> updated =
        updated_blocks(situation_.arguments, situation_.outputs, first.plan, kernel);
    Checker checker(situation_, first, reference_, stream_);
    if (checker.has_ignored() && !situation_.keeps_ignored) return "its ignored outputs have to be reset";
    Contents left = checker.left_by_reference(updated);
    const Contents* last = &first.contents;
    for (int launch = 2; is_another_state(first.plan, updated, *last, left); ++launch) {
      add(std::make_unique<Inputs>(first, std::move(left)));
      if (!is_usable(*expected_.back().checker)) {
        expected_.pop_back();
        break;
      }
      if (launch == launches) break;
      last = &expected_.back().inputs->contents;
      left = expected_.back().checker->left_by_reference(updated);
    }
    return expected_.empty() ? "a next launch would find no other contents that can be compared" : "";
  }

  Measurement compare(const LoadedCandidate& candidate, Strictness strictness) {
    Measurement result;
    for (const Expected& expected : expected_)
      if (result.ok()) result = outcome_of(expected.checker->check(candidate, strictness).verdict);
    return result;
  }

private:
  bool has_room(const Inputs& inputs, int sets) const {
    return has_room_apart(situation_.device, sets * inputs.plan.bytes());
  }
  void add(std::unique_ptr<Inputs> inputs) {
    constexpr int perturbed = 3, ahead = 3; // for a single candidate, which is launched twice
    auto checker = std::make_unique<Checker>(situation_, *inputs, reference_, stream_);
    checker->run_reference([&](double once) { return seconds_since(begin_) + ahead * once < seconds_; },
                           perturbed);
    expected_.push_back({std::move(inputs), std::move(checker)});
  }
  // Whether the reference computes the same each time, with what it has left in ignored outputs too.
  bool is_usable(Checker& checker) const {
    return checker.incomparable().empty() &&
           (!checker.has_ignored() || checker.check(reference_).verdict.kind == Verdict::Kind::right);
  }

  const LoadedCandidate& reference_;
  Situation situation_;
  Stream stream_;
  double seconds_;
  Clock::time_point begin_ = Clock::now();
  std::vector<Expected> expected_;
};

} // namespace

Verification verify(const LoadedCandidate& candidate, const LoadedCandidate& reference, Situation situation,
                    Twist twist, double seconds, const std::function<void()>& stage) {
  const std::vector<bool> steers =
      steering_of_both(situation.arguments, reference.kernel->recorded(), candidate.kernel->recorded());
  if (twist == Twist::ragged || twist == Twist::shorter) {
    auto arguments =
        ragged(std::move(situation.arguments), steers, twist == Twist::shorter ? &candidate.config : nullptr);
    if (!arguments) return {{}, "its integers may be indices or lengths, or it has raw pointers"};
    situation.arguments = *std::move(arguments);
  }
  const bool asks = asks_user(situation.outputs);
  if (twist == Twist::scalars) {
    auto arguments = with_other_scalars(std::move(situation.arguments), steers);
    if (asks || !arguments) return {{}, "there is no scalar to vary"};
    situation.arguments = *std::move(arguments);
  }
  if (twist == Twist::repeated && asks) return {{}, "a function compares its outputs"};
  std::optional<Verifier> verifier;
  try {
    verifier.emplace(reference, std::move(situation), seconds);
    std::string skipped = twist == Twist::repeated ? verifier->run_reference_again()
                                                   : verifier->run_reference(values_of(twist));
    if (!skipped.empty()) return {{}, std::move(skipped)};
  } catch (...) {
    return {{}, "the reference does not run: " + failure(Status::launch_error).error};
  }
  stage();
  const bool numbers_alone = twist == Twist::special && has_products(reference.kernel->recorded());
  try {
    return {verifier->compare(candidate, numbers_alone ? Strictness::numbers : Strictness::all), {}};
  } catch (...) {
    return {failure(Status::launch_error), {}};
  }
}

} // namespace kiln::tune
