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
constexpr float infinite = std::numeric_limits<float>::infinity();
// Medians are those of at most this many elements, spread evenly over the array.
constexpr std::size_t most_sampled = std::size_t{1} << 21;
// An element jumps if it moves this many times as far as most others of its magnitude, and as its own
// rounding error.
constexpr double jump_factor = 64;

std::size_t binade_of(double value) {
  if (value == 0) return 0;
  return static_cast<std::size_t>(std::clamp(std::ilogb(value) - least_exponent, 1, binades - 1));
}

double take_median(std::vector<float>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace

void Motion::add(std::span<const unsigned char> values, std::span<const unsigned char> moved,
                 const std::vector<bool>& unwritten, std::span<const unsigned char> poisoned) {
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  const Decoder decode(dtype_);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < spread_.size(); ++i) {
    const unsigned char *was = &values[i * size], *now = &moved[i * size];
    const bool now_unwritten = !poisoned.empty() && std::memcmp(now, &poisoned[i * size], size) == 0;
    const bool was_unwritten = !unwritten.empty() && unwritten[i];
    if (was_unwritten || now_unwritten) {
      if (was_unwritten != now_unwritten) spread_[i] = infinite, ++changed;
      continue;
    }
    if (std::memcmp(was, now, size) == 0) continue;
    const double a = decode(was), b = decode(now);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ++changed;
    const double distance = std::abs(a - b);
    const float kept = std::isfinite(a) && std::isfinite(b) ? static_cast<float>(distance) : infinite;
    spread_[i] = std::max(spread_[i], kept);
  }
  ++runs_;
  if (!spread_.empty())
    moved_share_ = std::max(moved_share_, static_cast<double>(changed) / static_cast<double>(spread_.size()));
}

void Motion::settle(std::span<const unsigned char> values) {
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  const std::size_t stride = spread_.size() / most_sampled + 1;
  const Decoder decode(dtype_);
  std::vector<std::vector<float>> by_binade(binades);
  for (std::size_t i = 0; i < spread_.size(); i += stride) {
    const double value = decode(&values[i * size]);
    if (!std::isfinite(value) || !std::isfinite(spread_[i])) continue;
    by_binade[binade_of(value)].push_back(spread_[i]);
  }
  medians_.clear();
  for (auto& spreads : by_binade)
    medians_.push_back(take_median(spreads));
  if (!is_float(dtype_)) return;
  std::vector<float> moving;
  std::size_t jumps = 0;
  for (std::size_t i = 0; i < spread_.size(); ++i) {
    if (spread_[i] == 0 || !std::isfinite(spread_[i])) continue;
    const double value = decode(&values[i * size]);
    if (!std::isfinite(value)) continue;
    const double usual = std::max(median_near(value), spacing_of(dtype_) * std::abs(value));
    if (spread_[i] <= jump_factor * usual) {
      if (i % stride == 0) moving.push_back(spread_[i]);
      continue;
    }
    ++jumps;
    largest_jump_ = std::max(largest_jump_, static_cast<double>(spread_[i]));
  }
  typical_ = take_median(moving);
  if (!spread_.empty()) jump_share_ = static_cast<double>(jumps) / static_cast<double>(spread_.size());
}

double Motion::largest_move() const {
  float largest = 0;
  for (const float s : spread_)
    if (std::isfinite(s)) largest = std::max(largest, s);
  return largest;
}

double Motion::median_near(double value) const {
  return medians_.empty() || !std::isfinite(value) ? 0 : medians_[binade_of(value)];
}

} // namespace kiln::tune
