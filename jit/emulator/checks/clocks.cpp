// Joins vector clocks, and reuses one of them where it already covers the other.
#include "clocks.h"

#include <algorithm>

namespace kiln::emulator {
namespace {

bool covers(const Slots& a, const Slots& b) { // whether every slot of a is at least that of b
  const std::size_t n = std::min(a.size(), b.size());
  bool less = false;
  for (std::size_t k = 0; k < n; ++k)
    less |= a[k] < b[k];
  return !less &&
         std::all_of(b.begin() + static_cast<std::ptrdiff_t>(n), b.end(), [](auto v) { return v == 0; });
}

} // namespace

void raise(Slots& to, const Slots& by) {
  if (to.size() < by.size()) to.resize(by.size());
  for (std::size_t k = 0; k < by.size(); ++k)
    to[k] = std::max(to[k], by[k]);
}

ClockPtr Clock::with(const ClockPtr& c, std::uint32_t block, Slots slots) {
  auto made = c ? std::make_shared<Clock>(*c) : std::make_shared<Clock>();
  auto shared = std::make_shared<const Slots>(std::move(slots));
  auto at = std::lower_bound(made->known_.begin(), made->known_.end(), block,
                             [](const auto& entry, std::uint32_t b) { return entry.first < b; });
  if (at != made->known_.end() && at->first == block)
    at->second = std::move(shared);
  else
    made->known_.insert(at, {block, std::move(shared)});
  return made;
}

ClockPtr Clock::with_block_scope_only(const ClockPtr& c) {
  if (!c) return c;
  auto already = std::make_shared<Clock>(), now = std::make_shared<Clock>();
  for (const auto& [block, slots] : c->known_)
    (block & block_scope_only ? already : now)->known_.emplace_back(block | block_scope_only, slots);
  return join(now, already);
}

ClockPtr Clock::join(const ClockPtr& a, const ClockPtr& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  // Mostly one covers the other: then no new clock is made, and threads continue to share that one.
  bool is_a = true, is_b = true;
  auto made = std::make_shared<Clock>();
  auto x = a->known_.begin(), y = b->known_.begin();
  while (x != a->known_.end() || y != b->known_.end()) {
    if (y == b->known_.end() || (x != a->known_.end() && x->first < y->first)) {
      made->known_.push_back(*x++);
      is_b = false;
      continue;
    }
    if (x == a->known_.end() || y->first < x->first) {
      made->known_.push_back(*y++);
      is_a = false;
      continue;
    }
    if (x->second == y->second || covers(*x->second, *y->second)) {
      made->known_.push_back(*x);
      is_b &= x->second == y->second || covers(*y->second, *x->second);
    } else if (covers(*y->second, *x->second)) {
      made->known_.push_back(*y);
      is_a = false;
    } else {
      Slots both = *x->second;
      raise(both, *y->second);
      made->known_.push_back({x->first, std::make_shared<const Slots>(std::move(both))});
      is_a = is_b = false;
    }
    ++x;
    ++y;
  }
  return is_a ? a : is_b ? b : made;
}

} // namespace kiln::emulator
