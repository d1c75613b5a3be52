// cp.async and cp.async.bulk: copies that land between their issue and their wait, at a moment that the seed
// decides.
#include "../access.h"
#include "../special_registers.h"
#include "decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

// d: address of the source; b: its size, or no_register; c: a predicate that ignores the source, or
// no_register. count: bytes; offset: of the source above, of the target below
void copy(Warp& w, const Instruction& i, Mask m) {
  Located from, to;
  Instruction source = i;
  source.a = i.d;
  source.mode2 = i.mode;
  source.offset = i.offset >> 32;
  addresses(w, source, m, from.address);
  Instruction target = i;
  target.offset = static_cast<std::int32_t>(i.offset);
  addresses(w, target, m, to.address);
  std::uint32_t wanted[warp_size];
  for (int l = 0; l < warp_size; ++l) {
    wanted[l] = i.b == no_register ? i.count : std::min(i.count, w.reg<std::uint32_t>(i.b)[l]);
    if (i.c != no_register && w.pred(i.c) >> l & 1) wanted[l] = 0;
  }
  locate(w, i, m, ptx::Space::Shared, i.count, i.count, AccessKind::Write, to, true);
  // Only what is copied must exist; lanes of one size at a time.
  Mask left = to.lanes;
  Mask ready = 0;
  while (left) {
    const std::uint32_t bytes = wanted[std::countr_zero(left)];
    Mask group = 0;
    for (Mask rest = left; rest; rest &= rest - 1)
      if (wanted[std::countr_zero(rest)] == bytes) group |= rest & (~rest + 1);
    left &= ~group;
    if (!bytes) {
      ready |= group;
      continue;
    }
    // host pointers of lanes outside of the group stay as an earlier round found them
    locate(w, i, group, ptx::Space::Global, bytes, bytes == i.count ? i.count : 1, AccessKind::Read, from,
           true);
    ready |= from.lanes;
  }
  auto& random = w.execution.random;
  for (Mask rest = ready; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    PendingCopy c;
    c.warp = &w;
    c.lane = l;
    c.group = w.copy_group[l];
    c.to = to.host[l];
    c.from = wanted[l] ? from.host[l] : nullptr;
    c.bytes = i.count;
    c.filled = i.count - wanted[l];
    Region& shared = *to.region[l];
    if (!shared.shadow.empty()) c.to_shadow = shared.shadow.data() + (to.host[l] - shared.data);
    if (random() % 3 == 0) {
      w.block.perform(c);
    } else {
      if (c.to_shadow) std::memset(c.to_shadow, 0, c.bytes); // not there yet
      w.block.pending.push_back(c);
    }
  }
}

void commit(Warp& w, const Instruction& i, Mask m) { // mode2: of bulk copies
  for (Mask rest = m; rest; rest &= rest - 1)
    ++(i.mode2 ? w.bulk_group : w.copy_group)[std::countr_zero(rest)];
}

// count: groups that may still be under way; mode 1: none, and the open one neither; mode2: of bulk copies
void wait(Warp& w, const Instruction& i, Mask m) {
  auto& pending = w.block.pending;
  std::erase_if(pending, [&](const PendingCopy& c) {
    if (c.warp != &w || !(m >> c.lane & 1) || c.bulk != (i.mode2 != 0) || c.mbarrier) return false;
    const std::uint32_t open = (i.mode2 ? w.bulk_group : w.copy_group)[c.lane];
    const bool due = i.mode ? true : open > i.count && c.group < open - i.count;
    if (due) w.block.perform(c);
    return due;
  });
}

// cp.async.bulk: a: destination, b: source, c: bytes; extra: the mbarrier or no_register; count: the widths
// of these addresses, eight bits each; space and mode: of destination and source
void bulk_copy(Warp& w, const Instruction& i, Mask m) {
  auto at = [&](std::uint32_t reg, std::uint32_t width, int l) {
    return width == 64 ? w.reg<std::uint64_t>(reg)[l] : std::uint64_t(w.reg<std::uint32_t>(reg)[l]);
  };
  for (Mask rest = m; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const Mask only = Mask(1) << l;
    const std::uint32_t bytes = w.reg<std::uint32_t>(i.c)[l];
    if (bytes % 16) {
      w.execution.found(Fault::IllegalOperand, w, i, l,
                        "copies " + std::to_string(bytes) + " bytes, which is no multiple of 16");
      continue;
    }
    if (!bytes) continue;
    Located to, from, bar;
    to.address[l] = at(i.a, i.count & 0xff, l);
    from.address[l] = at(i.b, i.count >> 8 & 0xff, l);
    locate(w, i, only, static_cast<ptx::Space>(i.mode), bytes, 16, AccessKind::Read, from, true);
    locate(w, i, only, i.space, bytes, 16, AccessKind::Write, to, true);
    if (!to.lanes || !from.lanes) continue;
    PendingCopy c;
    c.warp = &w;
    c.lane = l;
    c.bulk = true;
    c.group = w.bulk_group[l];
    c.to = to.host[l];
    c.from = from.host[l];
    c.bytes = bytes;
    if (i.extra != no_register) {
      bar.address[l] = at(i.extra, i.count >> 16 & 0xff, l);
      locate(w, i, only, ptx::Space::SharedCluster, 8, 8, AccessKind::Atomic, bar, true);
      if (!bar.lanes) continue;
      c.mbarrier = bar.host[l];
    }
    Region& region = *to.region[l];
    if (!region.shadow.empty()) c.to_shadow = region.shadow.data() + (to.host[l] - region.data);
    if (w.execution.random() % 3 == 0) {
      w.block.perform(c);
    } else {
      if (c.to_shadow) std::memset(c.to_shadow, 0, c.bytes);
      w.block.pending.push_back(c);
    }
  }
}

void bulk(Decoder& d) {
  auto unknown = [&]() {
    d.fail("'" + std::string(d.statement().opcode) + "' is not known to the emulator");
  };
  if (d.take("commit_group")) {
    d.expect_operands(0);
    Instruction i = d.plain(commit);
    i.mode2 = 1;
    return d.emit(i);
  }
  if (d.take("wait_group")) { // .read: sources only, which are done when the copies are
    d.take("read");
    d.expect_operands(1);
    auto n = d.immediate(d.operand(0));
    if (!n || *n < 0 || *n > 1 << 20) d.fail("cp.async.bulk.wait_group takes a number of groups");
    Instruction i = d.plain(wait);
    i.mode2 = 1;
    i.count = static_cast<std::uint32_t>(*n);
    return d.emit(i);
  }
  const bool grouped = d.take("bulk_group"), counted = d.take("mbarrier::complete_tx::bytes");
  d.take_prefix("L2::");
  static constexpr std::pair<std::string_view, ptx::Space> spaces[] = {
      {"shared::cluster", Space::SharedCluster}, {"shared::cta", Space::Shared}, {"global", Space::Global}};
  // The first is the destination.
  Space places[2] = {Space::Generic, Space::Generic};
  for (Space& place : places) {
    const auto next = d.next_modifier();
    for (auto& [name, space] : spaces)
      if (next && *next == name && place == Space::Generic && d.take(name)) place = space;
  }
  const bool into_global = places[0] == Space::Global;
  if (places[0] == Space::Generic || places[1] == Space::Generic || grouped == counted ||
      into_global != grouped || (into_global && places[1] != Space::Shared))
    unknown();
  d.expect_operands(counted ? 4 : 3, counted ? 5 : 4); // and a cache policy
  auto plain_address = [&](std::size_t n, int& width) {
    const Address a = d.address(d.operand(n));
    width = a.width;
    if (!a.offset) return a.reg;
    Instruction add = d.start(); // bulk addresses with an offset are rare
    add.run = a.width == 64 ? add_offset64 : nullptr;
    if (!add.run) unknown();
    add.a = a.reg;
    add.offset = a.offset;
    add.d = d.temporary(64);
    d.emit_hidden(add);
    return add.d;
  };
  Instruction i = d.plain(bulk_copy);
  int widths[3] = {0, 0, 0};
  i.a = plain_address(0, widths[0]);
  i.b = plain_address(1, widths[1]);
  i.c = d.source(2, Type::B32);
  i.extra = counted ? plain_address(3, widths[2]) : no_register;
  i.count = static_cast<std::uint32_t>(widths[0] | widths[1] << 8 | widths[2] << 16);
  i.space = places[0];
  i.mode = static_cast<std::uint8_t>(places[1]);
  d.emit(i);
}

void cp(Decoder& d) {
  const auto& op = d.statement().opcode;
  auto unknown = [&]() { d.fail("'" + std::string(op) + "' is not known to the emulator"); };
  if (!d.take("async")) unknown();
  if (d.take("bulk")) return bulk(d);
  if (d.take("commit_group")) {
    d.expect_operands(0);
    return d.emit(d.plain(commit));
  }
  if (d.take("wait_all")) {
    d.expect_operands(0);
    Instruction i = d.plain(wait);
    i.mode = 1;
    return d.emit(i);
  }
  if (d.take("wait_group")) {
    d.expect_operands(1);
    auto n = d.immediate(d.operand(0));
    if (!n || *n < 0 || *n > 1 << 20) d.fail("cp.async.wait_group takes a number of groups");
    Instruction i = d.plain(wait);
    i.count = static_cast<std::uint32_t>(*n);
    return d.emit(i);
  }
  if (d.take("mbarrier")) {
    if (!d.take("arrive")) unknown();
    const bool counted = !d.take("noinc");
    Instruction i = d.plain(wait); // the copies land now, which is a legal moment
    i.mode = 1;
    d.emit(i);
    return copies_arrive(d, counted);
  }
  const std::string_view cache = d.take_one_of({"ca", "cg"});
  if (cache.empty()) unknown();
  if (!d.take("shared") && !d.take("shared::cta")) unknown();
  if (!d.take("global")) unknown();
  d.take_prefix("L2::");
  d.expect_operands(3, 5);
  auto bytes = d.immediate(d.operand(2));
  if (!bytes || (*bytes != 4 && *bytes != 8 && *bytes != 16) || (cache == "cg" && *bytes != 16))
    d.fail("cp.async copies 4, 8 or 16 bytes, and .cg 16");
  Instruction i = d.plain(copy);
  const Address to = d.address(d.operand(0)), from = d.address(d.operand(1));
  if (to.offset != static_cast<std::int32_t>(to.offset) ||
      from.offset != static_cast<std::int32_t>(from.offset))
    d.fail("an offset of cp.async has more than 32 bits");
  i.a = to.reg;
  i.mode2 = static_cast<std::uint8_t>(to.width);
  i.d = from.reg;
  i.mode = static_cast<std::uint8_t>(from.width);
  i.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(from.offset) << 32 |
                                       static_cast<std::uint32_t>(to.offset));
  i.count = static_cast<std::uint32_t>(*bytes);
  i.b = i.c = no_register;
  if (d.operands() > 3) {
    if (d.width(d.operand(3)) == 1)
      i.c = d.predicate(d.operand(3));
    else if (d.width(d.operand(3)) != 64) // a cache policy otherwise
      i.b = d.source(3, Type::B32);
  }
  d.emit(i);
}

constexpr Opcode table[] = {{"cp", InstructionClass::Asynchronous, cp}};

} // namespace

std::span<const Opcode> asynchronous_opcodes() { return table; }

} // namespace kiln::emulator
