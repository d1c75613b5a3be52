// Moves marks of unwritten bits with each instruction, and reports loads whose unwritten bits are used.
#include "unwritten.h"

#include "access.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

constexpr Bits low_bits(unsigned n) { return n >= 128 ? ~Bits(0) : (Bits(1) << n) - 1; }
// Sign extension: copies the mark of the highest of n bits to all bits above them, up to `to`.
constexpr Bits extended(Bits v, unsigned n, unsigned to) {
  return n && n < to && v >> (n - 1) & 1 ? v | (low_bits(to) & ~low_bits(n)) : v;
}

std::string what_it_reads(Execution& e, const Origin& o) {
  const bool global = o.kind < Region::Kind::Shared;
  return "reads " + std::to_string(o.bytes) + " bytes at " +
         hexadecimal(global ? e.allocations.shown(o.address) : o.address) + ", which nothing wrote" +
         (o.first ? " from byte " + std::to_string(o.first) + " on" : std::string()) + ": " +
         (global                           ? e.allocations.describe(o.address, o.bytes)
          : o.kind == Region::Kind::Shared ? "shared memory"
          : o.kind == Region::Kind::Local  ? "local memory"
                                           : "parameters");
}

void report_use(Warp& w, const Instruction& user, int lane, const Origin& o, const char* how) {
  Execution& e = w.execution;
  e.add_finding(Fault::Uninitialised, w, *o.load, lane,
                what_it_reads(e, o) + ", and " + e.opcode(user) + " in line " + std::to_string(user.line) +
                    how);
}

// The shadow of the memory that a lane accesses; null if all of it counts as written. `makes` creates a
// shadow for parameters.
std::uint8_t* shadow_at(Warp& w, const Located& at, int lane, bool makes) {
  Region& r = *at.region[lane];
  switch (r.kind) {
  case Region::Kind::Local:
    return w.local_shadow().empty() ? nullptr : w.local_shadow().data() + (at.host[lane] - w.local_data());
  case Region::Kind::Param: {
    Frame& f = *w.frame();
    if (f.param_shadow.empty()) {
      if (!makes) return nullptr;
      f.param_shadow.assign(f.params.size(), 1);
    }
    return f.param_shadow.data() + (at.host[lane] - f.params.data());
  }
  default: return r.shadow.empty() ? nullptr : r.shadow.data() + (at.host[lane] - r.data);
  }
}

// The map, and the key in it, of the origin of a lane's byte.
std::pair<Origins*, std::uint64_t> origin_key(Warp& w, const Located& at, int lane, std::uint32_t byte) {
  if (at.region[lane]->kind == Region::Kind::Local)
    return {&w.local_origins, (static_cast<std::uint64_t>(at.host[lane] - w.local_data()) + byte) / 4};
  return {&w.execution.origins, (reinterpret_cast<std::uintptr_t>(at.host[lane]) + byte) / 4};
}

// Whether a load of unwritten bytes is next to written ones, so that it may be a load of padding.
bool next_to_written(const Located& at, int lane, const std::uint8_t* shadow, std::uint32_t bytes,
                     const Copying& c) {
  if (std::memchr(shadow, 1, bytes)) return true;
  // In local memory, 32 bytes of a lane are adjacent.
  const std::uint64_t a = at.address[lane];
  std::uint64_t before = std::min<std::uint64_t>(c.before, a % 16),
                after = std::min<std::uint64_t>(c.after, 15 - (a + bytes - 1) % 16);
  if (bytes == 1) before = std::max(before, a % 8), after = std::max(after, 7 - a % 8);
  const Region& r = *at.region[lane];
  if (r.kind == Region::Kind::Shared || r.kind == Region::Kind::Global) {
    const auto here = static_cast<std::uint64_t>(at.host[lane] - r.data);
    before = std::min(before, here);
    after = std::min(after, r.bytes - here - bytes);
  } else if (r.kind == Region::Kind::Param) {
    before = after = 0;
  }
  return std::memchr(shadow - before, 1, before) || std::memchr(shadow + bytes, 1, after);
}

Bits value(const Warp& w, std::uint32_t reg, unsigned bits, int lane) {
  switch (bits) {
  case 16: return w.reg<std::uint16_t>(reg)[lane];
  case 32: return w.reg<std::uint32_t>(reg)[lane];
  case 64: return w.reg<std::uint64_t>(reg)[lane];
  default: return w.reg<Bits>(reg)[lane];
  }
}

// Moves the marks for one instruction in a frame with marks.
class Follower {
public:
  Follower(Warp& w, Frame& f, const Instruction& i, const Copying& c, Mask m)
      : w_(w), f_(f), u_(*f.unwritten), i_(i), c_(c), m_(m) {}

  void run() {
    switch (c_.how) {
    case Copies::Load:
      use(i_.a);
      for (std::uint32_t k = 0; k < i_.count; ++k)
        u_.clear(w_.extras(i_)[k], m_);
      return;
    case Copies::Store: return use(i_.a);
    case Copies::Shuffle:
      use(i_.b);
      use(i_.c);
      return use(i_.target);
    case Copies::Pack: return pack();
    case Copies::Unpack: return unpack();
    case Copies::Nothing: return uses();
    case Copies::ShiftLeft:
    case Copies::ShiftRight: use(i_.b); break;
    case Copies::FunnelLeft:
    case Copies::FunnelRight:
    case Copies::Permute: use(i_.c); break;
    case Copies::Extract:
      use(i_.b);
      use(i_.c);
      break;
    case Copies::Insert:
      use(i_.c);
      use(i_.extra);
      break;
    default: break;
    }
    const bool two = c_.how >= Copies::Select, three = c_.how >= Copies::Lop3;
    const Mask marked = u_.lanes(i_.a) | (two ? u_.lanes(i_.b) : 0) | (three ? u_.lanes(i_.c) : 0);
    for (Mask rest = marked & m_; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      const Bits width = c_.how == Copies::Extend ? ~Bits(0) : low_bits(c_.bits);
      const Bits a = u_.bits(i_.a, l) & width, b = two ? u_.bits(i_.b, l) & width : 0,
                 c = three ? u_.bits(i_.c, l) & width : 0;
      const Origin origin = u_.origin(a ? i_.a : b ? i_.b : i_.c, l);
      u_.set(i_.d, l, result_marks(l, a, b, c) & low_bits(c_.bits), origin);
    }
    u_.clear(i_.d, m_ & ~marked);
  }

private:
  void use(std::uint32_t reg) {
    const Mask marked = u_.lanes(reg) & m_;
    for (Mask rest = marked; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      report_use(w_, i_, l, u_.origin(reg, l), " uses it");
    }
    u_.clear(reg, marked);
  }
  void uses() {
    const OperandUse* all = f_.function->uses.data() + c_.first_use;
    for (std::uint32_t k = 0; k < c_.uses; ++k)
      if (!all[k].writes) use(all[k].reg);
    for (std::uint32_t k = 0; k < c_.uses; ++k)
      if (all[k].writes) u_.clear(all[k].reg, m_);
  }
  void pack() {
    const std::uint32_t* parts = w_.extras(i_);
    const unsigned n = c_.bits / i_.count;
    for (Mask rest = m_; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      Bits all = 0;
      Origin origin;
      for (std::uint32_t k = 0; k < i_.count; ++k)
        if (const Bits part = u_.bits(parts[k], l) & low_bits(n)) {
          if (!all) origin = u_.origin(parts[k], l);
          all |= part << (k * n);
        }
      u_.set(i_.d, l, all, origin);
    }
  }
  void unpack() {
    const std::uint32_t* parts = w_.extras(i_);
    const unsigned n = c_.bits / i_.count;
    for (Mask rest = m_; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      const Bits all = u_.bits(i_.a, l);
      const Origin origin = all ? u_.origin(i_.a, l) : Origin{};
      for (std::uint32_t k = 0; k < i_.count; ++k)
        u_.set(parts[k], l, all >> (k * n) & low_bits(n), origin);
    }
  }

  // The marks of the result, given those of a, b and c.
  Bits result_marks(int l, Bits a, Bits b, Bits c) const {
    const unsigned bits = c_.bits;
    const auto number = [&](std::uint32_t reg) { return static_cast<std::uint32_t>(value(w_, reg, 32, l)); };
    switch (c_.how) {
    case Copies::Move: return a;
    case Copies::Select: return w_.pred(i_.c) >> l & 1 ? a : b;
    case Copies::And: return (a & b) | (a & value(w_, i_.b, bits, l)) | (b & value(w_, i_.a, bits, l));
    case Copies::Or: return (a & b) | (a & ~value(w_, i_.b, bits, l)) | (b & ~value(w_, i_.a, bits, l));
    case Copies::Xor: return a | b;
    case Copies::ShiftLeft: {
      const std::uint32_t n = number(i_.b);
      return n >= bits ? 0 : a << n;
    }
    case Copies::ShiftRight: {
      const std::uint32_t n = std::min<std::uint32_t>(number(i_.b), bits);
      return (c_.extends ? extended(a, bits, 128) : a) >> n;
    }
    case Copies::FunnelLeft:
    case Copies::FunnelRight: {
      const std::uint32_t amount = number(i_.c);
      const std::uint32_t n = c_.extends ? std::min(amount, 32u) : amount & 31; // .clamp or .wrap
      const Bits both = b << 32 | a;
      return c_.how == Copies::FunnelLeft ? both << n >> 32 : both >> n;
    }
    case Copies::Extract: {
      const std::uint32_t p = number(i_.b) & 0xff, n = number(i_.c) & 0xff;
      if (n == 0 || p >= bits) return c_.extends && n ? extended(a >> (bits - 1), 1, bits) : 0;
      const std::uint32_t have = std::min(n, bits - p);
      const Bits field = a >> p & low_bits(have);
      return c_.extends ? extended(field, have, bits) : field;
    }
    case Copies::Insert: {
      const std::uint32_t p = number(i_.c) & 0xff, n = number(i_.extra) & 0xff;
      const Bits mask = p < bits ? low_bits(std::min(n, bits)) << p : 0;
      return (b & ~mask) | (p < bits ? (a << p) & mask : 0);
    }
    case Copies::Permute: {
      const std::uint32_t control = number(i_.c);
      const Bits both = b << 32 | a;
      Bits r = 0;
      for (unsigned k = 0; k < 4; ++k) {
        const std::uint32_t n = control >> (4 * k) & 15;
        Bits byte = both >> (8 * (n & 7)) & 0xff;
        if (n & 8) byte = byte & 0x80 ? 0xff : 0; // replicates its highest bit
        r |= byte << (8 * k);
      }
      return r;
    }
    case Copies::Lop3: return lop3_marks(l, a, b, c);
    case Copies::Extend: {
      const Bits from = a & low_bits(c_.from_bits);
      const Bits wide = c_.extends_source ? extended(from, c_.from_bits, 128) : from;
      const Bits cut = wide & low_bits(c_.to_bits);
      return c_.extends ? extended(cut, c_.to_bits, bits) : cut;
    }
    default: return a | b | c;
    }
  }
  // The result bits of lop3 that depend on marked bits.
  Bits lop3_marks(int l, Bits a, Bits b, Bits c) const {
    const Bits marks[] = {c, b, a}; // in the order of the bits of the table's index, lowest first
    const Bits values[] = {value(w_, i_.c, 32, l), value(w_, i_.b, 32, l), value(w_, i_.a, 32, l)};
    Bits r = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
      unsigned seen = 0; // the possible results, as a mask of 0 and 1
      for (unsigned index = 0; index < 8; ++index) {
        bool possible = true;
        for (unsigned k = 0; k < 3; ++k)
          possible &= (marks[k] >> bit & 1) || (values[k] >> bit & 1) == (index >> k & 1);
        if (possible) seen |= 1u << (i_.mode >> index & 1);
      }
      if (seen == 3) r |= Bits(1) << bit;
    }
    return r;
  }

  Warp& w_;
  Frame& f_;
  Unwritten& u_;
  const Instruction& i_;
  const Copying& c_;
  const Mask m_;
};

const Copying& copying(const Frame& f, const Instruction& i) {
  return f.function->copying[static_cast<std::size_t>(&i - f.function->code.data())];
}

Unwritten& marks_of(Frame& f) {
  if (!f.unwritten) f.unwritten = std::make_unique<Unwritten>(f.function->register_bytes);
  return *f.unwritten;
}

} // namespace

void Unwritten::set(std::uint32_t reg, int lane, Bits bits, const Origin& origin) {
  if (!bits) return clear(reg, Mask(1) << lane);
  auto& r = registers_[reg / 64];
  if (!r) r = std::make_unique<Register>();
  if (!r->lanes) ++marked_;
  r->lanes |= Mask(1) << lane;
  r->bits[lane] = bits;
  r->origin[lane] = origin;
}

void Unwritten::clear(std::uint32_t reg, Mask lanes) {
  auto& r = registers_[reg / 64];
  if (!r || !r->lanes) return;
  r->lanes &= ~lanes;
  if (!r->lanes) --marked_;
}

void follow_unwritten(Warp& w, Frame& f, const Instruction& i, Mask m) {
  Follower(w, f, i, copying(f, i), m).run();
  if (!f.unwritten->any()) f.unwritten.reset();
}

void load_unwritten(Warp& w, const Instruction& i, const Located& at, std::uint32_t bytes, bool extends) {
  Frame& f = *w.frame();
  Unwritten& marks = marks_of(f);
  w.note_marks();
  const Copying& c = copying(f, i);
  const std::uint32_t* registers = w.extras(i);
  for (Mask rest = at.unwritten & at.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const std::uint8_t* shadow = shadow_at(w, at, l, false);
    const std::uint32_t all = bytes * i.count;
    Origin here{&i, at.address[l],      static_cast<std::uint8_t>(all),
                0,  at.region[l]->kind, next_to_written(at, l, shadow, all, c)};
    while (here.first < all && shadow[here.first] == 1)
      ++here.first;
    if (!c.read) {
      if (!here.padding)
        w.execution.add_finding(Fault::Uninitialised, w, i, l, what_it_reads(w.execution, here));
      continue;
    }
    for (std::uint32_t k = 0; k < i.count; ++k) {
      Bits v = 0;
      Origin origin = here;
      for (std::uint32_t b = bytes; b-- > 0;) {
        if (shadow[k * bytes + b] == 1) continue;
        v |= Bits(0xff) << (8 * b);
        if (shadow[k * bytes + b] != copied_unwritten) continue;
        const auto [origins, key] = origin_key(w, at, l, k * bytes + b);
        if (const auto known = origins->find(key); known != origins->end()) {
          origin = known->second;
          if (here.kind != Region::Kind::Param)
            origin.padding = here.padding; // calls pass parameters in pieces
        }
      }
      if (extends) v = extended(v, 8 * bytes, 128);
      marks.set(registers[k], l, v, origin);
    }
  }
}

void store_unwritten(Warp& w, const Instruction& i, const Located& at, std::uint32_t bytes) {
  const Unwritten& marks = *w.frame()->unwritten;
  const std::uint32_t* registers = w.extras(i);
  for (Mask rest = at.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    bool whole = true;
    const Origin* first = nullptr;
    for (std::uint32_t k = 0; k < i.count; ++k) {
      const Bits v = marks.bits(registers[k], l) & low_bits(8 * bytes);
      whole &= v == low_bits(8 * bytes);
      if (v && !first) first = &marks.origin(registers[k], l);
    }
    if (!first) continue;
    if (whole && !first->padding && at.region[l]->kind == Region::Kind::Global) {
      report_use(w, i, l, *first, " stores it in global memory");
      continue; // it was reported, and counts as written from here on
    }
    std::uint8_t* shadow = shadow_at(w, at, l, true);
    if (!shadow) continue;
    for (std::uint32_t k = 0; k < i.count; ++k)
      for (std::uint32_t b = 0; b < bytes; ++b)
        if ((marks.bits(registers[k], l) >> (8 * b) & 0xff) == 0xff) {
          shadow[k * bytes + b] = copied_unwritten;
          const auto [origins, key] = origin_key(w, at, l, k * bytes + b);
          (*origins)[key] = marks.origin(registers[k], l);
        }
  }
}

void shuffle_unwritten(const Participant* p, int n, const int* from) {
  Bits bits[warp_size] = {};
  Origin origin[warp_size];
  const auto each = [&](auto f) {
    for (int k = 0; k < n; ++k)
      for (Mask rest = p[k].lanes; rest; rest &= rest - 1)
        f(p[k], std::countr_zero(rest));
  };
  each([&](const Participant& x, int l) {
    if (!x.frame->unwritten) return;
    bits[l] = x.frame->unwritten->bits(x.instruction->a, l);
    if (bits[l]) origin[l] = x.frame->unwritten->origin(x.instruction->a, l);
  });
  each([&](const Participant& x, int l) {
    const Bits v = bits[from[l]] & low_bits(32);
    if (v || x.frame->unwritten) marks_of(*x.frame).set(x.instruction->d, l, v, origin[from[l]]);
  });
}

Mask report_unwritten(Warp& w, const Instruction& i, const Located& at, std::uint32_t bytes) {
  Mask partly = 0;
  for (Mask rest = at.unwritten & at.lanes; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (std::memchr(shadow_at(w, at, l, false), 1, bytes))
      partly |= Mask(1) << l;
    else
      w.execution.add_finding(Fault::Uninitialised, w, i, l,
                              what_it_reads(w.execution, {&i, at.address[l], static_cast<std::uint8_t>(bytes),
                                                          0, at.region[l]->kind, false}));
  }
  return partly;
}

void land_unwritten(Execution& e, const Instruction& i, const std::uint8_t* from, std::uint8_t* to,
                    const std::uint8_t* written, std::uint8_t* shadow, std::uint32_t bytes) {
  Origin here{
      &i,  reinterpret_cast<std::uintptr_t>(from), static_cast<std::uint8_t>(bytes), 0, Region::Kind::Global,
      true};
  while (here.first < bytes && written[here.first] == 1)
    ++here.first;
  for (std::uint32_t b = 0; b < bytes; ++b) {
    if (written[b] == 1) continue;
    shadow[b] = copied_unwritten;
    const auto known = e.origins.find((here.address + b) / 4);
    e.origins[(reinterpret_cast<std::uintptr_t>(to) + b) / 4] =
        written[b] == copied_unwritten && known != e.origins.end() ? Origin(known->second) : here;
  }
}

void pass_unwritten(Execution& e, const Frame& from, std::uint64_t from_at, Frame& to, std::uint64_t to_at,
                    std::uint64_t bytes) {
  if (from.param_shadow.empty() && to.param_shadow.empty()) return;
  if (to.param_shadow.empty()) to.param_shadow.assign(to.params.size(), 1);
  if (from.param_shadow.empty()) {
    std::memset(to.param_shadow.data() + to_at, 1, bytes);
    return;
  }
  std::memcpy(to.param_shadow.data() + to_at, from.param_shadow.data() + from_at, bytes);
  for (std::uint64_t b = 0; b < bytes; ++b)
    if (to.param_shadow[to_at + b] == copied_unwritten) {
      const auto key = [&](const Frame& f, std::uint64_t at) {
        return reinterpret_cast<std::uintptr_t>(f.params.data() + at + b) / 4;
      };
      if (const auto known = e.origins.find(key(from, from_at)); known != e.origins.end())
        e.origins[key(to, to_at)] = Origin(known->second);
    }
}

} // namespace kiln::emulator
