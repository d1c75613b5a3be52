// Implements the arithmetic, binding and printing of symbolic extents.
#include <kiln/dsl/ir/dim.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kiln::ir {

namespace {
bool name_less(const char* a, const char* b) { return std::strcmp(a, b) < 0; }
} // namespace

Dim Dim::symbol(const char* name) {
  Dim d;
  d.factors_.push_back(name);
  return d;
}

std::int64_t Dim::value() const {
  internal_check(is_constant(), [&] {
    return "the dimension " + to_string() + " was used as a number before a config was bound";
  });
  return numerator_;
}

void Dim::reduce() {
  for (auto f = factors_.begin(); f != factors_.end();) {
    auto d = std::find(divisors_.begin(), divisors_.end(), *f);
    if (d == divisors_.end()) {
      ++f;
    } else {
      divisors_.erase(d);
      f = factors_.erase(f);
    }
  }
  std::sort(factors_.begin(), factors_.end(), name_less);
  std::sort(divisors_.begin(), divisors_.end(), name_less);
  if (std::int64_t g = std::gcd(numerator_, denominator_); g > 1) numerator_ /= g, denominator_ /= g;
}

std::int64_t Dim::bind(const Config& config) const {
  auto size_of_symbol = [&](const char* name) {
    auto value = config.get(name);
    if (!value)
      throw UserError("dimension " + std::string(name) + " has no size in the config {" + config.to_string() +
                      "}; add " + name + " = SIZE");
    if (*value <= 0)
      throw UserError("dimension " + std::string(name) + " has size " + std::to_string(*value) +
                      "; a size must be positive");
    return *value;
  };
  std::int64_t above = numerator_, below = denominator_;
  bool overflow = false;
  for (const char* f : factors_)
    overflow |= __builtin_mul_overflow(above, size_of_symbol(f), &above);
  for (const char* d : divisors_)
    overflow |= __builtin_mul_overflow(below, size_of_symbol(d), &below);
  if (overflow)
    throw UserError("the extent " + to_string() + " overflows with the config {" + config.to_string() +
                    "}; choose smaller sizes");
  if (above % below != 0)
    throw UserError("the extent " + to_string() + " is " + std::to_string(above) + "/" +
                    std::to_string(below) + " with the config {" + config.to_string() +
                    "}, which is not a whole number; choose sizes that divide");
  return above / below;
}

void Dim::collect_symbols(std::vector<const char*>& into) const {
  for (const auto* list : {&factors_, &divisors_})
    for (const char* s : *list)
      if (std::find(into.begin(), into.end(), s) == into.end()) into.push_back(s);
}

Dim operator*(const Dim& a, const Dim& b) {
  Dim r = a;
  r.numerator_ *= b.numerator_;
  r.denominator_ *= b.denominator_;
  r.factors_.insert(r.factors_.end(), b.factors_.begin(), b.factors_.end());
  r.divisors_.insert(r.divisors_.end(), b.divisors_.begin(), b.divisors_.end());
  r.reduce();
  return r;
}

Dim operator/(const Dim& a, const Dim& b) {
  Dim inverse;
  inverse.numerator_ = b.denominator_;
  inverse.denominator_ = b.numerator_;
  inverse.factors_ = b.divisors_;
  inverse.divisors_ = b.factors_;
  return a * inverse;
}

std::string Dim::to_string() const {
  std::string text;
  for (const char* f : factors_)
    text += (text.empty() ? "" : "*") + std::string(f);
  if (numerator_ != 1 || text.empty()) text += (text.empty() ? "" : "*") + std::to_string(numerator_);
  for (const char* d : divisors_)
    text += "/" + std::string(d);
  if (denominator_ != 1) text += "/" + std::to_string(denominator_);
  return text;
}

} // namespace kiln::ir
