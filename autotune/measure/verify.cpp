// Implements the check of winners on special values, tiny values and smaller arrays.
#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/verify.h>

#include <algorithm>

namespace kiln::tune {

namespace {

bool has_dots(const ir::Kernel& kernel) {
  bool found = false;
  ir::walk(kernel.body, [&](const ir::Op& op) { found |= op.is(ir::Opcode::Dot); });
  return found;
}

std::int64_t smaller(std::int64_t extent) {
  return extent > 16 ? extent - 3 : extent > 2 ? extent - 1 : extent;
}

Values values_of(Twist twist) {
  return twist == Twist::special ? Values::special : twist == Twist::tiny ? Values::tiny : Values::usual;
}

} // namespace

const char* name(Twist twist) {
  return twist == Twist::special ? "special" : twist == Twist::tiny ? "tiny" : "ragged";
}

const char* words_of(Twist twist) {
  return twist == Twist::special ? "inputs with NaN and infinities"
         : twist == Twist::tiny  ? "inputs with zeros, subnormal numbers and negative integers"
                                 : "arrays that are a little smaller";
}

std::optional<Twist> parse_twist(std::string_view text) {
  for (Twist twist : all_twists)
    if (text == name(twist)) return twist;
  return std::nullopt;
}

std::optional<std::vector<Argument>> ragged(std::vector<Argument> arguments) {
  std::vector<std::int64_t> extents;
  for (Argument& a : arguments) {
    if (a.kind == Argument::Kind::pointer) return std::nullopt;
    if (a.kind != Argument::Kind::view) continue;
    const bool given = a.fill.kind == Fill::Kind::bytes && is_float(a.dtype);
    if (a.fill.kind != Fill::Kind::random && !given) return std::nullopt;
    const std::int64_t low = bytes_of(a, 0).low;
    for (std::int64_t& extent : a.extents) {
      extents.push_back(extent);
      extent = smaller(extent);
    }
    if (given) a.fill.first += static_cast<std::size_t>(bytes_of(a, 0).low - low);
  }
  for (Argument& a : arguments) {
    const auto value = static_cast<std::int64_t>(a.word);
    const bool is_extent = std::find(extents.begin(), extents.end(), value) != extents.end();
    if (a.kind == Argument::Kind::scalar && is_integer(a.dtype) && is_extent)
      a.word = static_cast<std::uint64_t>(smaller(value));
  }
  return arguments;
}

Verification verify(const LoadedCandidate& candidate, const LoadedCandidate& reference, Situation situation,
                    Twist twist, double seconds, const std::function<void()>& stage) {
  const auto begin = Clock::now();
  if (twist == Twist::ragged) {
    auto arguments = ragged(std::move(situation.arguments));
    if (!arguments) return {{}, "its integers may be indices, or it has raw pointers"};
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
