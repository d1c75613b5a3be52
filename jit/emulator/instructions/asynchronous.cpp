// Decodes and issues cp.async, by which each lane copies 4 to 16 bytes. bulk.cpp decodes cp.async.bulk.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/transfer.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

// d: address of the source; b: its size, or no_register; c: a predicate that ignores the source, or
// no_register. count: bytes; offset: that of the source in the upper 32 bits, that of the target in the lower
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
    wanted[l] = i.b == no_register ? i.count : w.reg<std::uint32_t>(i.b)[l];
    if (i.c != no_register && w.pred(i.c) >> l & 1) wanted[l] = 0;
  }
  for (Mask rest = m; rest; rest &= rest - 1)
    if (const int l = std::countr_zero(rest); wanted[l] > i.count) {
      w.execution.add_finding(Fault::IllegalOperand, w, i, l,
                              "reads " + std::to_string(wanted[l]) + " bytes of its source for a copy of " +
                                  std::to_string(i.count));
      wanted[l] = i.count;
    }
  locate(w, i, m, ptx::Space::Shared, i.count, i.count, AccessKind::Write, to, Purpose::Copied);
  // Only the bytes that are copied must exist. Lanes with the same size are checked together.
  Mask left = to.lanes;
  Mask ready = 0, unwritten = 0;
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
    // the host pointers of lanes outside of the group keep the values of earlier iterations
    locate(w, i, group, ptx::Space::Global, bytes, bytes == i.count ? i.count : 1, AccessKind::Read, from,
           Purpose::Copied);
    ready |= from.lanes;
    unwritten |= report_unwritten(w, i, from, bytes);
  }
  while (ready) { // an operation for the lanes of each group, of which there is mostly one
    const std::uint32_t group = w.copy_group[std::countr_zero(ready)];
    auto op = std::make_unique<Transfer>();
    op->kind = AsyncOperation::Kind::Copy;
    op->queue = AsyncOperation::Queue::Copies;
    op->warp = &w;
    op->instruction = &i;
    op->group = group;
    op->into_shared = true;
    for (Mask rest = ready; rest; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (w.copy_group[l] != group) continue;
      op->lanes |= Mask(1) << l;
      Region& shared = *to.region[l];
      op->destination = &shared;
      std::uint8_t* shadow =
          shared.shadow.empty() ? nullptr : shared.shadow.data() + (to.host[l] - shared.data);
      const std::uint32_t n = wanted[l];
      if (n) {
        const Region& source_region = *from.region[l];
        op->add(to.host[l], from.host[l], n, shadow, l,
                unwritten >> l & 1 ? source_region.shadow.data() + (from.host[l] - source_region.data)
                                   : nullptr);
        op->ranges.push_back({AccessKind::Read, from.host[l], n, from.region[l], nullptr, l});
      }
      if (n < i.count) op->add(to.host[l] + n, nullptr, i.count - n, shadow ? shadow + n : nullptr, l);
      op->ranges.push_back({AccessKind::Write, to.host[l], i.count, &shared, &w.block, l});
    }
    ready &= ~op->lanes;
    w.block.async_operations.issue(std::move(op));
  }
}

void commit(Warp& w, const Instruction&, Mask m) {
  for (Mask rest = m; rest; rest &= rest - 1)
    ++w.copy_group[std::countr_zero(rest)];
}

// count: number of groups that may still be under way; mode 1: none, the open group included
void wait(Warp& w, const Instruction& i, Mask m) {
  w.block.async_operations.wait(w, i, m, AsyncOperation::Queue::Copies, i.count, i.mode, false);
}

void cp(Decoder& d) {
  if (d.take("reduce")) {
    if (!d.take("async") || !d.take("bulk")) d.unknown();
    return bulk_reductions(d);
  }
  if (!d.take("async")) d.unknown();
  if (d.take("bulk")) return bulk_copies(d);
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
    if (!d.take("arrive")) d.unknown();
    const bool counted = !d.take("noinc");
    return copies_arrive(d, counted);
  }
  const std::string_view cache = d.take_one_of({"ca", "cg"});
  if (cache.empty()) d.unknown();
  if (!d.take("shared") && !d.take("shared::cta")) d.unknown();
  if (!d.take("global")) d.unknown();
  d.take_prefix("L2::");
  d.expect_operands(3, 5);
  auto bytes = d.immediate(d.operand(2));
  if (!bytes || (*bytes != 4 && *bytes != 8 && *bytes != 16) || (cache == "cg" && *bytes != 16))
    d.fail("cp.async copies 4, 8 or 16 bytes, and .cg 16");
  Instruction i = d.plain(copy);
  i.tracks_unwritten = true;
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

constexpr Opcode asynchronous_table[] = {{"cp", InstructionClass::Asynchronous, cp}};

} // namespace

std::span<const Opcode> asynchronous_opcodes() { return asynchronous_table; }

} // namespace kiln::emulator
