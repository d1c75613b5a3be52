// Implements the check of winners on special values, tiny values and smaller arrays.
#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/smaller_extents.h>
#include <kiln/autotune/measure/steering.h>
#include <kiln/autotune/measure/verify.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace kiln::tune {

namespace {

bool has_dots(const ir::Kernel& kernel) {
  bool found = false;
  ir::walk(kernel.body, [&](const ir::Op& op) { found |= op.is(ir::Opcode::Dot); });
  return found;
}

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

std::optional<std::uint64_t> other_integer(const Argument& a, const std::set<std::int64_t>& extents) {
  const int bits = 8 * size_of(a.dtype);
  const auto value = is_unsigned(a.dtype) || bits == 64
                         ? static_cast<std::int64_t>(a.word)
                         : static_cast<std::int64_t>(a.word << (64 - bits)) >> (64 - bits);
  if (a.dtype == DType::Bool || value == 0 || value == 1) return (a.word & 1) ^ 1;
  if (value < 0) return std::nullopt;
  for (std::int64_t extent : extents)
    if (extent > 0 && (extent % value == 0 || value % extent == 0)) return std::nullopt;
  return static_cast<std::uint64_t>(value - (value + 3) / 4);
}

std::optional<std::uint64_t> other_float(const Argument& a) {
  constexpr double factor = 0.73;
  const auto value = Decoder(a.dtype)(reinterpret_cast<const unsigned char*>(&a.word));
  if (!std::isfinite(value)) return std::nullopt;
  return scalar_argument(a.dtype, value == 0 ? factor : value * factor).word;
}

Values values_of(Twist twist) {
  return twist == Twist::special ? Values::special : twist == Twist::tiny ? Values::tiny : Values::usual;
}

} // namespace

const char* name(Twist twist) {
  return twist == Twist::special  ? "special"
         : twist == Twist::tiny   ? "tiny"
         : twist == Twist::ragged ? "ragged"
                                  : "scalars";
}

const char* words_of(Twist twist) {
  return twist == Twist::special  ? "inputs with NaN and infinities"
         : twist == Twist::tiny   ? "inputs with zeros, subnormal numbers and negative integers"
         : twist == Twist::ragged ? "arrays that are a little smaller"
                                  : "other values of scalars";
}

std::optional<Twist> parse_twist(std::string_view text) {
  for (Twist twist : all_twists)
    if (text == name(twist)) return twist;
  return std::nullopt;
}

std::optional<std::vector<Argument>> ragged(std::vector<Argument> arguments,
                                            const std::vector<bool>& steers) {
  const std::map<std::int64_t, std::int64_t> extents = smaller_extents(arguments);
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
  std::set<std::int64_t> extents;
  for (const Argument& a : arguments)
    extents.insert(a.extents.begin(), a.extents.end());
  bool any = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Argument& a = arguments[i];
    if (a.kind != Argument::Kind::scalar || a.as_given || steers[i]) continue;
    const auto word = is_float(a.dtype) ? other_float(a) : other_integer(a, extents);
    if (!word) continue;
    a.word = *word;
    any = true;
  }
  return any ? std::optional(std::move(arguments)) : std::nullopt;
}

Verification verify(const LoadedCandidate& candidate, const LoadedCandidate& reference, Situation situation,
                    Twist twist, double seconds, const std::function<void()>& stage) {
  const auto begin = Clock::now();
  const std::vector<bool> steers =
      steering_of_both(situation.arguments, reference.kernel->recorded(), candidate.kernel->recorded());
  if (twist == Twist::ragged) {
    auto arguments = ragged(std::move(situation.arguments), steers);
    if (!arguments) return {{}, "its integers may be indices or lengths, or it has raw pointers"};
    situation.arguments = *std::move(arguments);
  }
  if (twist == Twist::scalars) {
    const bool asks = std::any_of(situation.outputs.begin(), situation.outputs.end(),
                                  [](const OutputCheck& check) { return static_cast<bool>(check.compare); });
    auto arguments = with_other_scalars(std::move(situation.arguments), steers);
    if (asks || !arguments) return {{}, "there is no scalar to vary"};
    situation.arguments = *std::move(arguments);
  }
  Stream stream(situation.device);
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<Checker> checker;
  try {
    inputs = std::make_unique<Inputs>(situation, reference.kernel->recorded(), values_of(twist));
    if (!has_room_apart(situation.device, inputs->plan.bytes())) return {{}, "there is not enough memory"};
    checker = std::make_unique<Checker>(situation, *inputs, reference, stream);
    constexpr int perturbed = 3, ahead = 3; // for a single candidate, which is launched twice
    checker->run_reference([&](double once) { return seconds_since(begin) + ahead * once < seconds; },
                           perturbed);
  } catch (...) {
    return {{}, "the reference does not run: " + failure(Status::launch_error).error};
  }
  stage();
  const bool numbers_alone = twist == Twist::special && has_dots(reference.kernel->recorded());
  try {
    return {
        outcome_of(checker->check(candidate, numbers_alone ? Strictness::numbers : Strictness::all).verdict),
        {}};
  } catch (...) {
    return {failure(Status::launch_error), {}};
  }
}

} // namespace kiln::tune
