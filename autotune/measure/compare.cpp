// Compares outputs element by element, with a bound for each.
#include <kiln/autotune/measure/compare.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/perturb.h>
#include <kiln/dsl/float_bits.h>
#include <kiln/dsl/ir/semantics.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace kiln::tune {

namespace {

// The largest share of elements that may differ because of decisions; two may, so that an element may be
// counted in another bin of a short histogram.
constexpr double most_decided = 0.01, least_decided = 2;
// If many elements jump because values are fine: how many more may differ than jumped, and the largest share
// of floats that may.
constexpr double as_often = 3, most_jumping = 0.05;
// The share of floats that may differ although they did not move at all in the runs, such as the zeros of a
// relu. Those that may have stayed by chance come on top of that (Motion::unmoved_by_chance).
constexpr double still_share = 1e-5;
// The shares of floats and integers that may differ by a multiple of the median, although they moved much
// less in the runs, by chance: integers, and differences of large terms, may have only few possible values.
constexpr double slow_share = 1e-3, slow_share_of_integers = 1e-2;
// Elements that are rounded once may differ if no more of them do than this share, or this many times those
// that move in the runs; and, however many do, if the reference has no more than so many values there.
constexpr double otherwise_rounded = 0.01, rounded_as_often = 8;
constexpr std::size_t few_values = 16;
// The errors of its own magnitude that an element may have if rounding errors of the inputs move none.
constexpr double unmoved_roundings = 4;
// Borrowing from the median is limited to this multiple of the own spread with four runs, whose largest
// change is almost never smaller by that factor; fewer runs miss more.
constexpr double borrowed_with_four_runs = 30;

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string share_text(double share) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2g %% of the elements", 100 * share);
  return text;
}

std::string element_text(DType t, const unsigned char* at) {
  const ir::Cell cell = ir::load_cell(t, at);
  if (!is_float(t))
    return is_unsigned(t) ? std::to_string(cell) : std::to_string(static_cast<std::int64_t>(cell));
  return number_text(static_cast<double>(ir::float_of(t, cell)));
}

// The smallest differences that count: denormals may be treated as zeros by products of bf16 and by atomics.
double least_difference(DType t) {
  switch (t) {
  case DType::F64: return 0x1p-1018;
  case DType::F16: return 0x1p-23;
  case DType::F8E4M3: return 0x1.8p-9;
  case DType::F8E5M2: return 0x1.8p-16;
  default: return 0x1p-122; // f32 and bf16
  }
}

class Comparison {
public:
  Comparison(const ReferenceOutput& reference, std::span<const unsigned char> values,
             std::span<const unsigned char> poisoned, const Allowance& allowance, Strictness strictness,
             const std::vector<bool>& members, const std::vector<bool>& kept)
      : reference_(reference), motion_(reference.motion), values_(values), poisoned_(poisoned),
        members_(members), kept_(kept), allowance_(allowance),
        numbers_alone_(strictness == Strictness::numbers),
        size_(static_cast<std::size_t>(size_of(reference.dtype))), count_(values.size() / size_),
        decode_(reference.dtype) {
    const bool coarse = allowance.rounding > coarse_rounding;
    const double roundings = motion_.known() && !motion_.moves()
                                 ? std::min(unmoved_roundings, allowance.roundings)
                                 : allowance.roundings;
    fine_ = roundings * (coarse ? spacing_of(DType::F32) : allowance.rounding);
    const int runs = motion_.runs();
    borrowed_ = runs >= 4   ? borrowed_with_four_runs
                : runs == 3 ? 10 * borrowed_with_four_runs
                : runs == 2 ? 1000 * borrowed_with_four_runs
                            : std::numeric_limits<double>::infinity();
    elements_ =
        members.empty() ? count_ : static_cast<std::size_t>(std::count(members.begin(), members.end(), true));
    verdict_.compared.elements = elements_;
    verdict_.compared.dtype = reference.dtype;
  }

  Verdict run() {
    if (!motion_.known() && is_float(reference_.dtype)) find_magnitude();
    for (std::size_t i = 0; i < count_ && ok(); ++i)
      look_at(i);
    if (ok()) judge_exceptions();
    if (ok()) judge_rounding();
    return std::move(verdict_);
  }

private:
  const unsigned char* got(std::size_t i) const { return values_.data() + i * size_; }
  const unsigned char* right(std::size_t i) const { return reference_.values.data() + i * size_; }
  bool is_poison(std::size_t i) const {
    return !poisoned_.empty() && std::memcmp(got(i), poisoned_.data() + i * size_, size_) == 0;
  }
  bool is_unwritten(std::size_t i) const { return is_poison(i) && !kept_.empty() && kept_[i]; }
  bool ok() const { return verdict_.kind == Verdict::Kind::right; }
  bool declared() const { return allowance_.relative > 0 || allowance_.absolute > 0; }

  void fail(Verdict::Kind kind, std::size_t i, const std::string& what) {
    verdict_.kind = kind;
    verdict_.error = "element " + std::to_string(i) + " " + what;
  }
  std::string difference_text(std::size_t i) const {
    return "is " + element_text(reference_.dtype, got(i)) + ", but the reference has " +
           element_text(reference_.dtype, right(i));
  }
  void differs(std::size_t i, double bound = 0) {
    if (is_poison(i)) return fail(Verdict::Kind::wrong, i, "is not written");
    fail(Verdict::Kind::wrong, i,
         difference_text(i) +
             (bound > 0 ? ", and at most " + number_text(bound) + " between them is a rounding error" : ""));
  }
  // The pattern is a NaN as well. The reference wrote a NaN with other bits here, so the candidate wrote
  // nothing. One-byte floats have too few NaNs for this distinction.
  bool only_looks_written(std::size_t i) const {
    return size_ > 1 && is_unwritten(i) && std::memcmp(got(i), right(i), size_) != 0;
  }
  bool moves_by_infinity(std::size_t i) const {
    return motion_.has_spreads() && std::isinf(motion_.spread(i));
  }

  void look_at(std::size_t i) {
    if (!members_.empty() && !members_[i]) return;
    if (moves_by_infinity(i)) return;
    if (!reference_.unwritten.empty() && reference_.unwritten[i]) {
      const bool may_be_value = reference_.one_pattern && std::memcmp(got(i), right(i), size_) == 0;
      if (!is_poison(i) && !may_be_value)
        fail(Verdict::Kind::wrong, i, "is written, but the reference does not write it");
      return;
    }
    if (is_float(reference_.dtype))
      look_at_float(i);
    else
      look_at_integer(i);
  }

  void look_at_integer(std::size_t i) {
    const bool same = std::memcmp(got(i), right(i), size_) == 0;
    const double r = decode_(right(i));
    if (!same && is_unwritten(i)) return differs(i);
    const double bound =
        declared() ? allowance_.absolute + allowance_.relative * std::abs(r) : bound_of_integer(i, r);
    const double distance = same ? 0 : std::max(1.0, std::abs(decode_(got(i)) - r));
    count(i, distance, bound, are_fine() && 2 * motion_.spread(i) > std::max(2.0, std::abs(r) / 2));
    if (same) return;
    const bool slow =
        are_fine() && distance > bound && distance <= 1 + allowance_.factor * motion_.median_near(r);
    if (distance > bound && !slow && allowance_.share == 0) return differs(i, bound);
    if (distance > bound || !declared()) note_exception(i);
    if (slow) ++(motion_.spread(i) == 0 ? chance_exceptions_ : slow_exceptions_);
  }

  void look_at_float(std::size_t i) {
    const double r = decode_(right(i)), g = decode_(got(i));
    if (numbers_alone_ && !(std::isfinite(r) && std::isfinite(g)) && !is_poison(i)) return;
    if (std::isnan(r)) {
      if (!std::isnan(g) || only_looks_written(i)) differs(i);
      return;
    }
    if (std::isnan(g)) {
      differs(i);
      if (!is_poison(i)) verdict_.kind = Verdict::Kind::not_a_number;
      return;
    }
    if (std::isinf(r) || std::isinf(g)) {
      if (r != g && !near_overflow(r, g)) differs(i);
      return;
    }
    const double distance = std::abs(g - r), bound = bound_of(i, r, g);
    count(i, distance, bound, !declared() && allowance_.factor * spread_of(i, r) > std::abs(r) / 2);
    if (is_rounded_once() && distance > least_difference(reference_.dtype)) note_rounded_otherwise(i);
    if (distance <= bound) return;
    if (is_exact()) return distance <= units_of(1.5, r, g) ? note_exception(i) : differs(i);
    const bool jumps =
        motion_.jumps() + motion_.further_jumps() > 0 && distance <= 2 * motion_.largest_jump();
    const double own = motion_.known() ? motion_.spread(i) : 0, peers = motion_.median_near(r),
                 near = own == 0 ? std::max(peers, motion_.typical()) : peers;
    const bool near_enough = motion_.known() && distance <= allowance_.factor * near;
    if (!jumps && !near_enough && allowance_.share == 0) return differs(i, bound);
    note_exception(i);
    if (jumps) return;
    const bool like_peers = r != 0 && distance <= allowance_.factor * peers;
    ++(own > 0 ? slow_exceptions_ : like_peers ? chance_exceptions_ : still_exceptions_);
  }

  // A value next to the largest finite one rounds to infinity or not.
  bool near_overflow(double r, double g) const {
    const double finite = std::isinf(r) ? g : r, infinite = std::isinf(r) ? r : g;
    if (std::isinf(finite) || std::signbit(finite) != std::signbit(infinite)) return false;
    const double largest = reference_.dtype == DType::F64    ? std::numeric_limits<double>::max()
                           : reference_.dtype == DType::F32  ? std::numeric_limits<float>::max()
                           : reference_.dtype == DType::BF16 ? 0x1.fep127
                           : reference_.dtype == DType::F16  ? 65504.0
                                                             : 57344.0;
    return std::abs(finite) >= largest * (1 - 4 * spacing_of(reference_.dtype) - fine_);
  }

  double spread_of(std::size_t i, double r) const {
    if (!motion_.known()) return allowance_.rounding * (1 + allowance_.sums / 4) * (std::abs(r) + magnitude_);
    const double own = motion_.spread(i);
    return own == 0 ? 0 : std::max(own, std::min(motion_.median_near(r), borrowed_ * own));
  }
  double bound_of_integer(std::size_t i, double r) const {
    if (!depends_on_floats() || is_exact()) return 0;
    if (reference_.dtype == DType::Bool || !motion_.has_spreads()) return 1;
    const double own = 1 + 2 * motion_.spread(i);
    return are_fine() ? own + allowance_.factor * std::max(0.0, spread_of(i, r) - 1) : own;
  }
  double bound_of(std::size_t i, double r, double g) const {
    if (declared()) return allowance_.absolute + allowance_.relative * std::abs(r);
    const double least = least_difference(reference_.dtype);
    if (is_exact()) return least;
    return allowance_.factor * spread_of(i, r) + fine_ * std::max(std::abs(r), std::abs(g)) +
           units_of(1.5, r, g) + least;
  }
  // So many units in the last place of the larger of both.
  double units_of(double count, double r, double g) const {
    const double magnitude = std::max(std::abs(r), std::abs(g));
    return magnitude > 0 ? count * std::ldexp(spacing_of(reference_.dtype), std::ilogb(magnitude)) : 0;
  }

  // The root mean square of the reference, for lack of spreads.
  void find_magnitude() {
    double sum = 0;
    std::size_t numbers = 0;
    for (std::size_t i = 0; i < count_; ++i)
      if (const double r = decode_(right(i)); std::isfinite(r)) sum += r * r, ++numbers;
    magnitude_ = numbers ? std::sqrt(sum / static_cast<double>(numbers)) : 0;
  }

  bool depends_on_floats() const {
    return motion_.from_floats || motion_.moves() || motion_.further_jumps() > 0;
  }
  // Many elements move, and not because the inputs lie exactly on decisions.
  bool are_fine() const { return motion_.is_unclear() && !decides_equally(); }
  bool decides_equally() const {
    return motion_.on_ties() || (allowance_.depth < 2 && !motion_.varies() && !is_float(reference_.dtype));
  }
  bool is_exact() const {
    return allowance_.depth == 0 && !motion_.varies() && !declared() && allowance_.share == 0;
  }

  // Whether right outputs have the same bits in most elements.
  bool is_rounded_once() const {
    return allowance_.rounded_once && motion_.moved_by_rounding() && !declared() && allowance_.share == 0;
  }
  void note_rounded_otherwise(std::size_t i) {
    if (rounded_otherwise_++ == 0) first_rounded_otherwise_ = i;
    if (different_values_.size() <= few_values) different_values_.insert(decode_(right(i)));
  }
  void judge_rounding() {
    const auto compared = static_cast<double>(verdict_.compared.compared);
    const auto moving = static_cast<double>(motion_.moved_by_rounding().value_or(0));
    if (different_values_.size() <= few_values ||
        static_cast<double>(rounded_otherwise_) <=
            std::max(otherwise_rounded * compared, rounded_as_often * moving))
      return;
    fail(Verdict::Kind::wrong, first_rounded_otherwise_,
         difference_text(first_rounded_otherwise_) + "; " +
             share_text(static_cast<double>(rounded_otherwise_) / compared) +
             " are rounded otherwise, but rounding errors of what is rounded explain few of them");
  }

  // An element is vague if it moves by about as much as its own value.
  void count(std::size_t i, double distance, double bound, bool vague) {
    OutputComparison& c = verdict_.compared;
    ++c.compared;
    c.vague += vague;
    const double used = distance == 0 ? 0
                        : bound > 0   ? distance / bound
                                      : std::numeric_limits<double>::infinity();
    if (used <= most_used_) return;
    most_used_ = used;
    c.worst = i;
    c.value = decode_(got(i));
    c.reference = decode_(right(i));
    c.bound = bound;
  }

  void note_exception(std::size_t i) {
    if (verdict_.compared.exceptions++ == 0) first_exception_ = i;
  }

  double allowed_jumps(double elements) const {
    const auto jumps = static_cast<double>(motion_.jumps()),
               further = static_cast<double>(motion_.further_jumps());
    const double decided =
        std::min(std::max(2 * jumps, further), std::max(most_decided * elements, least_decided));
    if (decides_equally()) return decided;
    const double most =
        is_float(reference_.dtype) ? std::max(most_jumping * elements, least_decided) : elements;
    return std::max(decided, motion_.is_unclear() ? std::min(as_often * jumps, most) : 0.0);
  }

  void judge_exceptions() {
    OutputComparison& c = verdict_.compared;
    if (c.exceptions == 0) return;
    const auto elements = static_cast<double>(elements_);
    double allowed = allowance_.share * elements;
    if (is_exact()) {
      allowed = most_decided * elements;
    } else if (allowance_.share == 0) {
      allowed = allowed_jumps(elements) + (depends_on_floats() ? 1 : 0);
      const double still = std::floor(still_share * elements) + 1,
                   slow = (is_float(reference_.dtype) ? slow_share : slow_share_of_integers) * elements + 1;
      const auto stayed = static_cast<double>(still_exceptions_),
                 moved_little = static_cast<double>(slow_exceptions_),
                 by_chance = static_cast<double>(chance_exceptions_),
                 more = std::max(0.0, by_chance - motion_.unmoved_by_chance());
      const bool few = is_float(reference_.dtype) ? stayed + more <= still && moved_little <= slow
                                                  : moved_little + more <= slow;
      allowed = few ? allowed + stayed + by_chance + moved_little : -1;
    }
    if (static_cast<double>(c.exceptions) <= allowed) return;
    fail(Verdict::Kind::wrong, first_exception_,
         difference_text(first_exception_) + "; " + share_text(static_cast<double>(c.exceptions) / elements) +
             " differ, which is more than rounding errors explain");
  }

  const ReferenceOutput& reference_;
  const Motion& motion_;
  std::span<const unsigned char> values_, poisoned_;
  const std::vector<bool>&members_, &kept_;
  const Allowance& allowance_;
  bool numbers_alone_;
  std::size_t size_, count_, elements_ = 0;
  Decoder decode_;
  double fine_, borrowed_, magnitude_ = 0, most_used_ = -1;
  std::size_t rounded_otherwise_ = 0, first_rounded_otherwise_ = 0;
  std::set<double> different_values_; // of the reference where the output is rounded otherwise
  std::size_t first_exception_ = 0, still_exceptions_ = 0, chance_exceptions_ = 0, slow_exceptions_ = 0;
  Verdict verdict_;
};

} // namespace

Verdict compare(const ReferenceOutput& reference, std::span<const unsigned char> values,
                std::span<const unsigned char> poisoned, const Allowance& allowance, Strictness strictness,
                const std::vector<bool>& members, const std::vector<bool>& kept) {
  return Comparison(reference, values, poisoned, allowance, strictness, members, kept).run();
}

} // namespace kiln::tune
