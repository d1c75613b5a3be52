// Decodes cp.async.bulk, cp.reduce.async.bulk and their .tensor forms, prefetches and groups.
#include "bulk.h"

#include <kiln/jit/emulator/core/block.h>
#include <kiln/jit/emulator/core/special_registers.h>

#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

BulkRegister place(Decoder& d, const Operand& o, Space* space = nullptr) {
  const Address a = d.address(o);
  if (space && a.space && (*a.space == Space::Param || *a.space == Space::Const)) *space = *a.space;
  if (!a.offset) return {a.reg, static_cast<std::uint32_t>(a.width)};
  Instruction add = d.start();
  add.a = a.reg;
  add.offset = a.offset;
  add.d = d.temporary(64);
  add.run = a.width == 64 ? add_offset64 : [](Warp& w, const Instruction& i, Mask) {
    for (int l = 0; l < warp_size; ++l)
      w.reg<std::uint64_t>(i.d)[l] = static_cast<std::uint32_t>(w.reg<std::uint32_t>(i.a)[l] + i.offset);
  };
  d.emit_hidden(add);
  return {add.d, 64};
}

std::optional<Space> take_space(Decoder& d) {
  for (auto [name, space] : {std::pair<std::string_view, Space>{"shared::cluster", Space::SharedCluster},
                             {"shared::cta", Space::Shared},
                             {"global", Space::Global}})
    if (d.next_modifier() == name && d.take(name)) return space;
  return std::nullopt;
}

void finish(Decoder& d, Bulk& b) {
  Instruction i = d.plain(run_bulk);
  std::uint32_t words[bulk_words];
  std::memcpy(words, &b, sizeof b);
  i.extra = d.extras(words);
  d.emit(i);
}

void take_operation(Decoder& d, Bulk& b) {
  b.reduces = 1;
  b.operation = take_combine(d);
}

void tensor(Decoder& d, bool prefetches, bool reduction) {
  Bulk b;
  for (std::string_view n : {"1d", "2d", "3d", "4d", "5d"})
    if (d.take(n)) b.tensor_rank = static_cast<std::uint32_t>(n[0] - '0');
  if (!b.tensor_rank) d.unknown();
  d.take("tile");
  for (std::string_view mode : {"im2col", "im2col::w", "im2col::w::128", "im2col_no_offs", "tile::gather4",
                                "tile::scatter4", "cta_group::1", "cta_group::2"})
    if (d.take(mode))
      d.fail(quoted(d.statement().opcode) + ": ." + std::string(mode) + " is not known to the emulator");
  if (prefetches) {
    if (!d.take("L2") || take_space(d) != Space::Global) d.unknown();
    const bool hint = d.take("L2::cache_hint");
    d.expect_operands(hint ? 2 : 1);
  } else {
    const auto to = take_space(d), from = take_space(d);
    if (!to || !from) d.unknown();
    b.loads = *to != Space::Global;
    if (b.loads ? *from != Space::Global || reduction : *from != Space::Shared) d.unknown();
    if (reduction) take_operation(d, b);
    const bool counted = d.take("mbarrier::complete_tx::bytes");
    b.grouped = d.take("bulk_group");
    if (counted != (b.loads != 0) || b.grouped == b.loads) d.unknown();
    const bool multicast = d.take("multicast::cluster"), hint = d.take("L2::cache_hint");
    if (multicast && *to != Space::SharedCluster) d.unknown();
    d.expect_operands(2u + b.loads + multicast + hint);
    if (b.loads) {
      Space space = Space::SharedCluster;
      b.mbarrier = place(d, d.operand(2), &space);
      b.mbarrier_space = static_cast<std::uint32_t>(*to);
      if (multicast) b.mask = d.source(3, Type::B16);
    }
    b.shared = place(d, d.operand(b.loads ? 0 : 1));
  }
  const Operand& map = d.operand(b.loads ? 1 : 0);
  if (map.kind != Operand::Kind::Address || map.parts.size() != 2)
    d.fail(quoted(d.statement().opcode) + " takes a tensor map and coordinates, [map, {x, y}]");
  Space space = Space::Generic;
  b.global = place(d, map, &space);
  b.map_space = static_cast<std::uint32_t>(space);
  const auto coordinates = d.vector(map.parts[1], b.tensor_rank);
  for (std::size_t k = 0; k < b.tensor_rank; ++k)
    b.coordinates[k] = d.source(*coordinates[k], Type::S32);
  finish(d, b);
}

void commit_bulk_group(Warp& w, const Instruction&, Mask m) {
  for (Mask rest = m; rest; rest &= rest - 1)
    ++w.bulk_group[std::countr_zero(rest)];
}
// count: number of groups that may still be under way; mode 1: only their sources must have been read
void wait_bulk_group(Warp& w, const Instruction& i, Mask m) {
  w.block.async_operations.wait(w, i, m, AsyncOperation::Queue::Bulk, i.count, false, i.mode);
}

void bytes(Decoder& d, bool reduction) {
  Bulk b;
  const auto to = take_space(d), from = take_space(d);
  if (!to || !from) d.unknown();
  const bool counted = d.take("mbarrier::complete_tx::bytes");
  b.grouped = d.take("bulk_group");
  if (reduction) {
    take_operation(d, b);
    d.take("noftz");
    const Type t = d.take_type();
    const auto op = static_cast<Combine>(b.operation);
    const bool logic = op == Combine::And || op == Combine::Or || op == Combine::Xor;
    const bool known = logic ? t == Type::B32 || t == Type::B64 : bulk_reduces(op, t);
    if (!known) d.unknown();
    b.type = static_cast<std::uint32_t>(t);
  }
  const bool multicast = d.take("multicast::cluster"), hint = d.take("L2::cache_hint");
  const bool into_global = *to == Space::Global,
             between = *to == Space::SharedCluster && *from == Space::Shared;
  b.loads = *from == Space::Global;
  if (counted == (b.grouped != 0) || into_global != (b.grouped != 0) ||
      (into_global && *from != Space::Shared) || (b.loads && reduction) ||
      (!into_global && !between && !b.loads) || (multicast && !b.loads) || (hint && between))
    d.unknown();
  d.expect_operands(3u + counted + multicast + hint);
  const BulkRegister first = place(d, d.operand(0)), second = place(d, d.operand(1));
  if (between) {
    b.target = first;
    b.shared = second;
  } else {
    b.shared = into_global ? second : first;
    b.global = into_global ? first : second;
  }
  b.bytes = d.source(2, Type::B32);
  if (counted) {
    b.mbarrier = place(d, d.operand(3));
    b.mbarrier_space = static_cast<std::uint32_t>(*to);
    if (multicast) b.mask = d.source(4, Type::B16);
  }
  finish(d, b);
}

} // namespace

std::uint8_t take_combine(Decoder& d) {
  constexpr std::string_view names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  for (std::uint8_t k = 0; k < std::size(names); ++k)
    if (d.take(names[k])) return k;
  d.unknown();
}

void bulk_copies(Decoder& d) {
  if (d.take("commit_group")) {
    d.expect_operands(0);
    return d.emit(d.plain(commit_bulk_group));
  }
  if (d.take("wait_group")) {
    Instruction i = d.plain(wait_bulk_group);
    i.mode = d.take("read");
    d.expect_operands(1);
    auto n = d.immediate(d.operand(0));
    if (!n || *n < 0 || *n > 1 << 20) d.fail("cp.async.bulk.wait_group takes a number of groups");
    i.count = static_cast<std::uint32_t>(*n);
    return d.emit(i);
  }
  const bool prefetches = d.take("prefetch");
  if (d.take("tensor")) return tensor(d, prefetches, false);
  if (!prefetches) return bytes(d, false);
  if (!d.take("L2") || !d.take("global")) d.unknown();
  const bool hint = d.take("L2::cache_hint");
  d.expect_operands(2u + hint);
  d.address(d.operand(0)); // a prefetch has no effect here
  d.emit(d.plain([](Warp&, const Instruction&, Mask) {}));
}

void bulk_reductions(Decoder& d) {
  if (d.take("tensor")) return tensor(d, false, true);
  bytes(d, true);
}

} // namespace kiln::emulator
