// Implements the spreads of elements, their medians by magnitude, and the count of jumps.
#include <kiln/autotune/measure/motion.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/perturb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kiln::tune {

namespace {

constexpr int least_exponent = -1080, binades = 2160; // those of doubles, and one for zero
constexpr double infinite = std::numeric_limits<double>::infinity();
// Medians are those of at most this many elements, spread evenly over the array.
constexpr std::size_t most_sampled = std::size_t{1} << 21;
// An element jumps if it moves this many times as far as most others of its magnitude, and as its own
// rounding error.
constexpr double jump_factor = 64;
// If more elements than this share jump, the reason matters. The movement has another reason than decisions
// if it grows by this factor when inputs move much further, or if rounding errors inside of the kernel alone
// cause this share of it.
constexpr double unclear_share = 1e-3, growth = 4, internal_share = 0.1;

std::size_t binade_of(double value) {
  if (value == 0) return 0;
  return static_cast<std::size_t>(std::clamp(std::ilogb(value) - least_exponent, 1, binades - 1));
}

double take_median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Calls f(i, was, distance) for each element that moves; by infinity if it is finite or written in one of the
// two runs alone.
template <class F> void for_each_move(DType dtype, const Motion::Run& run, F f) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  const Decoder decode(dtype);
  for (std::size_t i = 0; i * size < run.values.size(); ++i) {
    const unsigned char *was = &run.values[i * size], *now = &run.moved[i * size];
    const bool now_unwritten = !run.moved_unwritten.empty() && run.moved_unwritten[i];
    const bool was_unwritten = !run.unwritten.empty() && run.unwritten[i];
    if (was_unwritten || now_unwritten) {
      if (was_unwritten != now_unwritten) f(i, 0.0, infinite);
      continue;
    }
    if (std::memcmp(was, now, size) == 0) continue;
    const double a = decode(was), b = decode(now);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    f(i, a, std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : infinite);
  }
}

} // namespace

Motion::Motion(DType dtype, std::size_t elements) : dtype_(dtype), elements_(elements) {
  if (size_of(dtype) == 8)
    wide_.resize(elements);
  else
    narrow_.resize(elements);
  moves_of_.resize(elements);
}

bool Motion::is_large(double distance, double magnitude) const {
  return !is_float(dtype_) || distance > jump_factor * spacing_of(dtype_) * magnitude;
}

void Motion::add_repeat(const Run& run) {
  keep_spreads(run);
  varies_ |= moves_;
}

void Motion::add(const Run& run) {
  keep_spreads(run);
  for_each_move(dtype_, run, [this](std::size_t i, double, double) { ++moves_of_[i]; });
  movement_ += movement_of(run);
  ++runs_;
}

void Motion::keep_spreads(const Run& run) {
  for_each_move(dtype_, run, [this](std::size_t i, double, double distance) {
    moves_ = true;
    raise_spread(i, distance);
  });
}

void Motion::raise_spread(std::size_t i, double distance) {
  if (wide_.empty()) {
    constexpr double most = std::numeric_limits<float>::max();
    const double kept = std::isinf(distance) ? distance : std::min(distance, most);
    narrow_[i] = std::max(narrow_[i], static_cast<float>(kept));
  } else {
    wide_[i] = std::max(wide_[i], distance);
  }
}

bool Motion::can_be_finer() const { return known() && (is_float(dtype_) || (is_unclear() && !on_ties_)); }

void Motion::add_finer(const Run& run) {
  for_each_move(dtype_, run, [this](std::size_t i, double was, double distance) {
    const bool jumps =
        is_float(dtype_) ? jumps_by(distance, was) : distance > jump_factor * std::max(1.0, median_near(was));
    if (std::isinf(distance) || jumps) return;
    raise_spread(i, distance);
    ++moves_of_[i];
  });
  ++runs_;
  estimate_unmoved(run.values);
}

// Chao's estimate of the number of unseen species: if element i moves in each of m runs with the probability
// p_i, and u, v elements moved in one and in two of them, at least about (m - 1) / m * u^2 / (2 v) of those
// that can move did not. With one run, those that move are taken to do so with a probability of at least 1/2.
void Motion::estimate_unmoved(std::span<const unsigned char> values) {
  constexpr double safety =
      2; // simulated sums of 3 to 16 terms: 1.2 to 1.9 times the estimate with 3 runs and more
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  const Decoder decode(dtype_);
  struct Counts {
    double unmoved = 0, once = 0, twice = 0;
  };
  std::vector<Counts> by_binade(binades);
  for (std::size_t i = 0; i < moves_of_.size(); ++i) {
    const double value = decode(&values[i * size]);
    if (moves_of_[i] > 2 || (value == 0 && is_float(dtype_)) || !std::isfinite(value)) continue;
    Counts& c = by_binade[binade_of(value)];
    ++(moves_of_[i] == 0 ? c.unmoved : moves_of_[i] == 1 ? c.once : c.twice);
  }
  unmoved_by_chance_ = 0;
  for (const Counts& c : by_binade) {
    const double unseen =
        runs_ > 1 ? (runs_ - 1.0) / runs_ * c.once * c.once / (2 * std::max(c.twice, 1.0)) : c.once;
    unmoved_by_chance_ += std::min(c.unmoved, safety * unseen);
  }
}

bool Motion::jumps_by(double distance, double value) const {
  const double rounding = spacing_of(is_float(dtype_) ? dtype_ : DType::F32) * std::abs(value);
  const double usual = on_ties_ ? rounding : std::max(median_near(value), rounding);
  return !is_float(dtype_) || distance > jump_factor * usual;
}

double Motion::movement_of(const Run& run) const {
  double movement = 0;
  for_each_move(dtype_, run, [&](std::size_t, double was, double distance) {
    if (std::isfinite(distance) && is_large(distance, std::abs(was)))
      movement += distance / (distance + std::abs(was));
  });
  return movement;
}

void Motion::add_further(const Run& run, double times) {
  constexpr double smooth = 16; // a smooth function moves less than this many times the median times `times`
  find_medians(run.values);
  further_movement_ = movement_of(run);
  for_each_move(dtype_, run, [&](std::size_t, double was, double distance) {
    if (std::isinf(distance)) return;
    if (is_float(dtype_) && distance <= std::max(jump_factor * spacing_of(dtype_) * std::abs(was),
                                                 smooth * times * median_near(was)))
      return;
    ++further_jumps_;
    largest_jump_ = std::max(largest_jump_, distance);
  });
}

void Motion::add_internal(const Run& run) { internal_movement_ = movement_of(run); }

void Motion::add_rounding(const Run& run) {
  std::size_t count = 0;
  for_each_move(dtype_, run, [&](std::size_t, double, double) { ++count; });
  moved_by_rounding_ = count;
}

bool Motion::is_unclear() const {
  return movement_ > 0 && static_cast<double>(large_) > unclear_share * static_cast<double>(elements_);
}

void Motion::find_medians(std::span<const unsigned char> values) {
  if (!medians_.empty()) return;
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  const std::size_t stride = elements_ / most_sampled + 1;
  const Decoder decode(dtype_);
  std::vector<std::vector<double>> by_binade(binades);
  large_ = 0;
  for (std::size_t i = 0; i < elements_; ++i) {
    const double value = decode(&values[i * size]);
    if (!std::isfinite(value) || !std::isfinite(spread(i))) continue;
    large_ += spread(i) > 0 && is_large(spread(i), std::abs(value));
    if (i % stride == 0) by_binade[binade_of(value)].push_back(spread(i));
  }
  // Differences of large terms may be small by chance: where few elements have a magnitude, those of larger
  // ones count, too.
  constexpr std::size_t few = 8, most_binades = 24;
  medians_.clear();
  for (std::size_t b = 0; b < by_binade.size(); ++b) {
    std::vector<double> spreads = by_binade[b];
    for (std::size_t above = b + 1; !spreads.empty() && b > 0 && spreads.size() < few &&
                                    above < by_binade.size() && above <= b + most_binades;
         ++above)
      spreads.insert(spreads.end(), by_binade[above].begin(), by_binade[above].end());
    medians_.push_back(take_median(spreads));
  }
}

void Motion::settle(std::span<const unsigned char> values) {
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  const std::size_t stride = elements_ / most_sampled + 1;
  const Decoder decode(dtype_);
  find_medians(values);
  const double once = runs_ ? movement_ / runs_ : 0;
  on_ties_ = is_unclear() && further_movement_ && *further_movement_ < growth * once &&
             internal_movement_.value_or(0) < internal_share * once;
  std::vector<double> moving;
  for (std::size_t i = 0; i < elements_; ++i) {
    if (spread(i) == 0 || !std::isfinite(spread(i))) continue;
    const double value = decode(&values[i * size]);
    if (!std::isfinite(value)) continue;
    if (!jumps_by(spread(i), value)) {
      if (i % stride == 0) moving.push_back(spread(i));
      continue;
    }
    ++jumps_;
    largest_jump_ = std::max(largest_jump_, spread(i));
    if (!is_float(dtype_) || !on_ties_) continue;
    if (wide_.empty()) // a right config is not off by that
      narrow_[i] = 0;
    else
      wide_[i] = 0;
  }
  if (on_ties_ && is_float(dtype_)) {
    medians_.clear();
    find_medians(values);
  }
  typical_ = is_float(dtype_) ? take_median(moving) : 0;
  if (runs_ > 0) estimate_unmoved(values);
}

double Motion::median_near(double value) const {
  return medians_.empty() || !std::isfinite(value) ? 0 : medians_[binade_of(value)];
}

} // namespace kiln::tune
