// Updates the clocks of the lanes of a warp, shared by all lanes while they are equal.
#include "warp_clocks.h"

#include <algorithm>
#include <bit>

namespace kiln::emulator {
namespace {

const ClockPtr nothing;
int first(Mask m) { return std::countr_zero(m); }

template <class A, class B> void raise_row(A& to, const B& by) {
  for (std::size_t k = 0; k < slots_of_warp; ++k)
    to[k] = std::max(to[k], by[k]);
}

} // namespace

void WarpClocks::spread_rows() {
  if (!same_row_) return;
  same_row_ = false;
  std::fill(rows_.begin() + 1, rows_.end(), rows_[0]);
}

void WarpClocks::spread_clocks() {
  if (!same_clock_) return;
  same_clock_ = false;
  std::fill(clocks_.begin() + 1, clocks_.end(), clocks_[0]);
  std::fill(own_.begin() + 1, own_.end(), own_[0]);
}

void WarpClocks::set_clock(int lane, ClockPtr c) {
  if (clock(lane) == c) return;
  spread_clocks();
  const auto l = static_cast<std::size_t>(lane);
  own_[l] = c ? c->of(block_) : nullptr;
  clocks_[l] = std::move(c);
}

void WarpClocks::set_all_clocks(ClockPtr c) {
  own_[0] = c ? c->of(block_) : nullptr;
  if (!same_clock_) std::fill(clocks_.begin() + 1, clocks_.end(), nullptr);
  clocks_[0] = std::move(c);
  same_clock_ = true;
}

void WarpClocks::synchronise(Mask lanes, Mask living) {
  const bool all = (lanes & living) == living;
  if (!all && !(lanes & (lanes - 1))) return;
  Row row = rows_[same_row_ ? 0 : static_cast<std::size_t>(first(lanes))];
  if (!same_row_)
    for (Mask rest = lanes; rest; rest &= rest - 1)
      raise_row(row, rows_[static_cast<std::size_t>(first(rest))]);
  for (Mask rest = lanes; rest; rest &= rest - 1)
    row[static_cast<std::size_t>(first(rest))] = stamp_;
  if (all) {
    same_row_ = true;
    rows_[0] = row;
  } else {
    spread_rows();
    for (Mask rest = lanes; rest; rest &= rest - 1)
      rows_[static_cast<std::size_t>(first(rest))] = row;
  }
  if (!same_clock_) {
    ClockPtr joined;
    for (Mask rest = lanes; rest; rest &= rest - 1)
      joined = Clock::join(joined, clocks_[static_cast<std::size_t>(first(rest))]);
    if (all)
      set_all_clocks(joined);
    else
      for (Mask rest = lanes; rest; rest &= rest - 1)
        set_clock(first(rest), joined);
  }
  if (fences_) {
    auto share = [&](auto& by_lane) {
      ClockPtr joined;
      for (Mask rest = lanes; rest; rest &= rest - 1)
        joined = Clock::join(joined, by_lane[static_cast<std::size_t>(first(rest))]);
      for (Mask rest = lanes; rest; rest &= rest - 1)
        by_lane[static_cast<std::size_t>(first(rest))] = joined;
    };
    for (auto& p : fences_->proxied)
      share(p);
    for (auto& f : fences_->fenced)
      share(f);
    share(fences_->initialised);
  }
  tick();
}

void WarpClocks::add_fences(int lane, Knowledge& to) const {
  if (!fences_) return;
  const auto l = static_cast<std::size_t>(lane);
  for (int k = 0; k < 2; ++k)
    to.proxied[k] = Clock::join(to.proxied[k], fences_->proxied[k][l]);
  for (int k = 0; k < 3; ++k)
    to.fenced[k] = Clock::join(to.fenced[k], fences_->fenced[k][l]);
  to.initialised = Clock::join(to.initialised, fences_->initialised[l]);
}

Knowledge WarpClocks::release(int lane) {
  Knowledge k;
  const ClockPtr& rest = clock(lane);
  Slots slots;
  if (const Slots* s = own_[same_clock_ ? 0 : static_cast<std::size_t>(lane)]) slots = *s;
  const std::size_t at = warp_ * slots_of_warp;
  if (slots.size() < at + slots_of_warp) slots.resize(at + slots_of_warp);
  std::copy_n(row(lane), slots_of_warp, slots.begin() + static_cast<std::ptrdiff_t>(at));
  slots[at + static_cast<std::size_t>(lane)] = stamp_;
  k.clock = Clock::with(rest, block_, std::move(slots));
  add_fences(lane, k);
  return k;
}

void WarpClocks::acquire(int lane, const Knowledge& k) {
  if (k.clock) {
    set_clock(lane, Clock::join(clock(lane), k.clock));
    if (const Slots* s = k.clock->of(block_); s && s->size() >= (warp_ + 1) * slots_of_warp) {
      const std::uint32_t* own = s->data() + warp_ * slots_of_warp;
      bool news = false;
      for (std::size_t n = 0; n < slots_of_warp; ++n)
        news |= own[n] > row(lane)[n];
      if (news) {
        spread_rows();
        raise_row(rows_[static_cast<std::size_t>(lane)], own);
      }
    }
  }
  for (int n = 0; n < 2; ++n)
    if (k.proxied[n]) {
      auto& mine = fences().proxied[n][static_cast<std::size_t>(lane)];
      mine = Clock::join(mine, k.proxied[n]);
    }
  for (int n = 0; n < 3; ++n)
    if (k.fenced[n]) {
      auto& mine = fences().fenced[n][static_cast<std::size_t>(lane)];
      mine = Clock::join(mine, k.fenced[n]);
    }
  if (k.initialised) {
    auto& mine = fences().initialised[static_cast<std::size_t>(lane)];
    mine = Clock::join(mine, k.initialised);
  }
}

void WarpClocks::release_into(Mask lanes, Knowledge& rest, Slots& slots) {
  const std::size_t at = warp_ * slots_of_warp;
  if (slots.size() < at + slots_of_warp) slots.resize(at + slots_of_warp);
  for (Mask left = lanes; left; left &= left - 1) {
    const int l = first(left);
    if (left == lanes || !same_clock_) rest.clock = Clock::join(rest.clock, clock(l));
    if (left == lanes || !same_row_) {
      const std::uint32_t* r = row(l);
      for (std::size_t k = 0; k < slots_of_warp; ++k)
        slots[at + k] = std::max(slots[at + k], r[k]);
    }
    slots[at + static_cast<std::size_t>(l)] = stamp_;
    add_fences(l, rest);
  }
  tick();
}

void WarpClocks::learn(Mask lanes, Mask living, const Knowledge& k) {
  const Slots* s = k.clock ? k.clock->of(block_) : nullptr;
  Row row{};
  if (s && s->size() >= (warp_ + 1) * slots_of_warp)
    std::copy_n(s->begin() + static_cast<std::ptrdiff_t>(warp_ * slots_of_warp), slots_of_warp, row.begin());
  if ((lanes & living) == living) {
    same_row_ = true;
    rows_[0] = row;
    set_all_clocks(k.clock);
  } else {
    spread_rows();
    for (Mask rest = lanes; rest; rest &= rest - 1) {
      rows_[static_cast<std::size_t>(first(rest))] = row;
      set_clock(first(rest), k.clock);
    }
  }
  Knowledge fences_only = k;
  fences_only.clock = nullptr;
  bool any = k.initialised != nullptr;
  for (const auto& p : k.proxied)
    any |= p != nullptr;
  for (const auto& f : k.fenced)
    any |= f != nullptr;
  if (any)
    for (Mask rest = lanes; rest; rest &= rest - 1)
      acquire(first(rest), fences_only);
}

void WarpClocks::finish_copy(int lane, std::uint32_t stamp) {
  const std::size_t column = warp_size + static_cast<std::size_t>(lane);
  if (row(lane)[column] >= stamp) return;
  // Only this lane knows that its copies have ended; the other lanes learn of it when they synchronise.
  spread_rows();
  rows_[static_cast<std::size_t>(lane)][column] = stamp;
}

void WarpClocks::finish(Mask lanes, Mask living, std::uint32_t block, std::uint32_t slot,
                        std::uint32_t stamp) {
  auto raised = [&](const ClockPtr& c) {
    const Slots* s = c ? c->of(block) : nullptr;
    Slots slots = s ? *s : Slots();
    if (slots.size() <= slot) slots.resize(slot + 1);
    slots[slot] = std::max(slots[slot], stamp);
    return Clock::with(c, block, std::move(slots));
  };
  if (same_clock_ && (lanes & living) == living) return set_all_clocks(raised(clocks_[0]));
  for (Mask rest = lanes; rest; rest &= rest - 1)
    if (!knows(first(rest), block, slot, stamp)) set_clock(first(rest), raised(clock(first(rest))));
}

void WarpClocks::fence(int lane, int scope, bool acquires, bool releases) {
  const auto l = static_cast<std::size_t>(lane);
  if (fences_ && acquires)
    for (int s = 0; s <= scope; ++s)
      if (auto& later = fences_->unfenced[s][l]; !later.empty()) {
        acquire(lane, later);
        later = {};
      }
  if (!releases) return;
  const ClockPtr now = release(lane).clock;
  for (int s = 0; s <= scope; ++s)
    fences().fenced[s][l] = now;
}

void WarpClocks::proxy_fence(int lane, bool shared, bool global) {
  const ClockPtr now = release(lane).clock;
  if (shared) fences().proxied[0][static_cast<std::size_t>(lane)] = now;
  if (global) fences().proxied[1][static_cast<std::size_t>(lane)] = now;
}

// Releases this thread's own initialisations, and no others that it knows of.
void WarpClocks::init_fence(int lane) {
  const std::size_t slot = warp_ * slots_of_warp + static_cast<std::size_t>(lane);
  Slots own(slot + 1);
  own[slot] = stamp_;
  auto& made = fences().initialised[static_cast<std::size_t>(lane)];
  made = Clock::join(made, Clock::with(nullptr, block_, std::move(own)));
}

const ClockPtr& WarpClocks::proxied(int lane, bool global) const {
  return fences_ ? fences_->proxied[global][static_cast<std::size_t>(lane)] : nothing;
}
const ClockPtr& WarpClocks::fenced(int lane, int scope) const {
  return fences_ ? fences_->fenced[scope][static_cast<std::size_t>(lane)] : nothing;
}
const ClockPtr& WarpClocks::initialised(int lane) const {
  return fences_ ? fences_->initialised[static_cast<std::size_t>(lane)] : nothing;
}
void WarpClocks::add_unfenced(int lane, int scope, const Knowledge& k) {
  fences().unfenced[scope][static_cast<std::size_t>(lane)].join(k);
}

} // namespace kiln::emulator
