// Issues cp.async.bulk, cp.reduce.async.bulk and their .tensor forms.
//
// A tensor copy uses a tensor map (core/tensor_map.h). Its box starts at the coordinates. In shared memory
// the elements of the box are adjacent without gaps, dimension 0 first. Elements outside of the tensor are
// read as zeros or NaNs and are not written. A swizzle of 32, 64 or 128 bytes permutes the 16-byte chunks of
// shared memory: 1, 2 or 3 bits of the address from bit 4 on ^= those from bit 7 on.
#include "bulk.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/tensor_map.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

std::uint64_t value(const Warp& w, const BulkRegister& r, int l) {
  return r.width == 64 ? w.reg<std::uint64_t>(r.at)[l] : std::uint64_t(w.reg<std::uint32_t>(r.at)[l]);
}

std::unique_ptr<Transfer> start(Warp& w, const Instruction& i, int l, const Bulk& b) {
  auto op = std::make_unique<Transfer>();
  op->kind = b.tensor_rank ? AsyncOperation::Kind::Tensor : AsyncOperation::Kind::Bulk;
  op->proxy = Proxy::Async;
  op->queue = b.grouped ? AsyncOperation::Queue::Bulk : AsyncOperation::Queue::Mbarrier;
  op->warp = &w;
  op->instruction = &i;
  op->lanes = Mask(1) << l;
  op->group = w.bulk_group[l];
  op->combines = b.reduces;
  op->operation = static_cast<Combine>(b.operation);
  op->type = static_cast<Type>(b.type);
  return op;
}

void fault(Warp& w, const Instruction& i, int l, const std::string& what) {
  w.execution.add_finding(Fault::IllegalOperand, w, i, l, what);
}

// The blocks that a load writes to, and the addresses in each: the block of the address, or those of the
// mask.
struct Target {
  Block* block;
  std::uint8_t *to, *shadow, *mbarrier;
};
std::vector<Target> targets(Warp& w, const Instruction& i, int l, const Bulk& b, const Place& to,
                            const Place& mbarrier) {
  std::vector<Target> all;
  if (b.mask == no_register) {
    if (to.block != mbarrier.block)
      fault(w, i, l, "writes shared memory of one block and counts on an mbarrier of another");
    all.push_back({to.block, to.host, to.shadow, mbarrier.host});
    return all;
  }
  const std::uint32_t mask = w.reg<std::uint16_t>(b.mask)[l];
  const auto ranks = w.block.cluster.size();
  if (mask >> ranks || !mask) {
    fault(w, i, l,
          "has the mask " + std::to_string(mask) + " of blocks, in a cluster of " + std::to_string(ranks));
    return all;
  }
  const auto offset = to.host - to.block->shared.data, bar = mbarrier.host - mbarrier.block->shared.data;
  for (std::size_t r = 0; r < ranks; ++r)
    if (mask >> r & 1) {
      Block* block = w.block.cluster[r];
      Region& shared = block->shared;
      all.push_back({block, shared.data + offset,
                     shared.shadow.empty() ? nullptr : shared.shadow.data() + offset, shared.data + bar});
    }
  return all;
}

void issue(Warp& w, std::unique_ptr<Transfer> op) { w.block.async_operations.issue(std::move(op)); }

void copy_bytes(Warp& w, const Instruction& i, int l, const Bulk& b) {
  const std::uint32_t bytes = w.reg<std::uint32_t>(b.bytes)[l];
  if (bytes % 16)
    return fault(w, i, l, "copies " + std::to_string(bytes) + " bytes, which is no multiple of 16");
  Place shared, other, mbarrier;
  const auto update = b.reduces ? AccessKind::Atomic : AccessKind::Write;
  if (b.mbarrier.at != no_register &&
      !locate_one(w, i, l, static_cast<Space>(b.mbarrier_space), value(w, b.mbarrier, l), 8, 8,
                  AccessKind::Atomic, mbarrier))
    return;
  if (!bytes) return;
  if (b.target.at != no_register) { // from this block to another
    if (!locate_one(w, i, l, Space::Shared, value(w, b.shared, l), bytes, 16, AccessKind::Read, shared) ||
        !locate_one(w, i, l, Space::SharedCluster, value(w, b.target, l), bytes, 16, update, other))
      return;
    for (const Target& t : targets(w, i, l, b, other, mbarrier)) {
      auto op = start(w, i, l, b);
      op->into_shared = true;
      op->destination = &t.block->shared;
      op->add(t.to, shared.host, bytes, t.shadow, l);
      op->ranges = {{AccessKind::Read, shared.host, bytes, shared.region, shared.block, l},
                    {update, t.to, bytes, op->destination, t.block, l}};
      op->mbarrier = t.mbarrier;
      op->counted = bytes;
      issue(w, std::move(op));
    }
    return;
  }
  if (!locate_one(w, i, l, Space::Global, value(w, b.global, l), bytes, 16,
                  b.loads ? AccessKind::Read : update, other) ||
      !locate_one(w, i, l, b.loads ? Space::SharedCluster : Space::Shared, value(w, b.shared, l), bytes, 16,
                  b.loads ? AccessKind::Write : AccessKind::Read, shared))
    return;
  if (!b.loads) {
    auto op = start(w, i, l, b);
    op->destination = other.region;
    op->add(other.host, shared.host, bytes, other.shadow, l);
    op->ranges = {{AccessKind::Read, shared.host, bytes, shared.region, shared.block, l},
                  {update, other.host, bytes, other.region, nullptr, l}};
    return issue(w, std::move(op));
  }
  for (const Target& t : targets(w, i, l, b, shared, mbarrier)) {
    auto op = start(w, i, l, b);
    op->into_shared = true;
    op->destination = &t.block->shared;
    op->add(t.to, other.host, bytes, t.shadow, l);
    op->ranges = {{AccessKind::Read, other.host, bytes, other.region, nullptr, l},
                  {AccessKind::Write, t.to, bytes, op->destination, t.block, l}};
    op->mbarrier = t.mbarrier;
    op->counted = bytes;
    issue(w, std::move(op));
  }
}

// --- Tensors

// A row of a box: its `inside` bytes from `skipped` on are in global memory at `host`.
struct Row {
  std::uint8_t *host = nullptr, *shadow = nullptr;
  Region* region = nullptr;
  std::uint32_t skipped = 0, inside = 0;
};
struct Box {
  std::uint32_t row_bytes = 0;
  std::vector<Row> rows;
  std::uint32_t bytes() const { return row_bytes * static_cast<std::uint32_t>(rows.size()); }
};

bool locate_box(Warp& w, const Instruction& i, int l, const TensorMapFields& map, const std::int64_t* start,
                AccessKind kind, Box& box) {
  const std::uint32_t size = bytes_of(map.type);
  box.row_bytes = map.box[0] * size;
  const std::int64_t first = std::clamp<std::int64_t>(-start[0], 0, map.box[0]),
                     last = std::clamp<std::int64_t>(static_cast<std::int64_t>(map.sizes[0]) - start[0],
                                                     first, map.box[0]);
  std::uint32_t at[5] = {}, count[5] = {1, 1, 1, 1, 1};
  for (std::size_t k = 1; k < map.rank; ++k)
    count[k] = (map.box[k] + map.element_strides[k] - 1) / map.element_strides[k];
  while (true) {
    Row row;
    row.skipped = static_cast<std::uint32_t>(first) * size;
    row.inside = static_cast<std::uint32_t>(last - first) * size;
    std::uint64_t address = map.address + static_cast<std::uint64_t>((start[0] + first)) * size;
    for (std::size_t k = 1; k < map.rank; ++k) {
      const std::int64_t x = start[k] + std::int64_t(at[k]) * map.element_strides[k];
      if (x < 0 || static_cast<std::uint64_t>(x) >= map.sizes[k]) row.inside = 0;
      address += static_cast<std::uint64_t>(x) * map.strides[k - 1];
    }
    if (row.inside) {
      Place place;
      if (!locate_one(w, i, l, Space::Global, address, row.inside, 1, kind, place)) return false;
      row.host = place.host;
      row.shadow = place.shadow;
      row.region = place.region;
    }
    box.rows.push_back(row);
    std::size_t k = 1;
    while (k < map.rank && ++at[k] == count[k])
      at[k++] = 0;
    if (k >= map.rank) return true;
  }
}

// Calls f(offset in shared memory, offset in the row, bytes) for each contiguous part of a row.
template <class F>
void parts(const TensorMapFields& map, std::uint64_t offset, std::uint32_t row_bytes, const F& f) {
  if (map.swizzle == TensorMapSwizzle::None) return f(offset, 0u, row_bytes);
  const std::uint64_t mask = (std::uint64_t(1) << static_cast<int>(map.swizzle)) - 1;
  for (std::uint32_t b = 0; b < row_bytes; b += 16) {
    const std::uint64_t a = offset + b;
    f(a ^ (a >> 7 & mask) << 4, b, 16u);
  }
}

std::uint32_t filling(const TensorMapFields& map) {
  if (map.fill == TensorMapFill::Zero) return 0;
  return map.type == TensorMapType::Float16 || map.type == TensorMapType::BFloat16 ? 0x7fff7fff : 0x7fffffff;
}

Type element(TensorMapType t) {
  constexpr Type types[] = {Type::U8,  Type::U16, Type::U32,  Type::S32, Type::U64, Type::S64, Type::F16,
                            Type::F32, Type::F64, Type::BF16, Type::F32, Type::F32, Type::F32};
  return types[static_cast<std::size_t>(t)];
}

void load_box(Warp& w, const Instruction& i, int l, const Bulk& b, const TensorMapFields& map, const Box& box,
              const Target& t) {
  auto op = start(w, i, l, b);
  op->into_shared = true;
  op->destination = &t.block->shared;
  op->fill = filling(map);
  op->flush = map.type == TensorMapType::Float32Flushed || map.type == TensorMapType::TFloat32Flushed;
  std::uint8_t* data = t.block->shared.data;
  auto offset = static_cast<std::uint64_t>(t.to - data);
  for (const Row& row : box.rows) {
    parts(map, offset, box.row_bytes, [&](std::uint64_t at, std::uint32_t from, std::uint32_t n) {
      const std::uint32_t end = from + n, first = std::clamp(row.skipped, from, end),
                          last = std::clamp(row.skipped + row.inside, first, end);
      auto put = [&](std::uint32_t x, std::uint32_t y, bool inside) {
        if (x == y) return;
        const std::uint64_t to = at + (x - from);
        op->add(data + to, inside ? row.host + (x - row.skipped) : nullptr, y - x,
                t.shadow ? t.shadow - (t.to - data) + to : nullptr, l);
      };
      put(from, first, false);
      put(first, last, true);
      put(last, end, false);
    });
    offset += box.row_bytes;
    if (row.inside) op->ranges.push_back({AccessKind::Read, row.host, row.inside, row.region, nullptr, l});
  }
  op->ranges.push_back({AccessKind::Write, t.to, box.bytes(), op->destination, t.block, l});
  op->mbarrier = t.mbarrier;
  op->counted = box.bytes();
  issue(w, std::move(op));
}

void store_box(Warp& w, const Instruction& i, int l, const Bulk& b, const TensorMapFields& map,
               const Box& box, const Place& from) {
  auto op = start(w, i, l, b);
  op->type = element(map.type);
  const AccessKind kind = b.reduces ? AccessKind::Atomic : AccessKind::Write;
  const std::uint8_t* data = from.block->shared.data;
  auto offset = static_cast<std::uint64_t>(from.host - data);
  op->ranges.push_back({AccessKind::Read, from.host, box.bytes(), from.region, from.block, l});
  for (const Row& row : box.rows) {
    parts(map, offset, box.row_bytes, [&](std::uint64_t at, std::uint32_t start_of, std::uint32_t n) {
      const std::uint32_t end = start_of + n, first = std::clamp(row.skipped, start_of, end),
                          last = std::clamp(row.skipped + row.inside, first, end);
      if (first == last) return;
      const std::uint32_t in_row = first - row.skipped;
      op->add(row.host + in_row, data + at + (first - start_of), last - first,
              row.shadow ? row.shadow + in_row : nullptr, l);
    });
    offset += box.row_bytes;
    if (row.inside) op->ranges.push_back({kind, row.host, row.inside, row.region, nullptr, l});
    if (row.inside) op->destination = row.region;
  }
  issue(w, std::move(op));
}

void copy_box(Warp& w, const Instruction& i, int l, const Bulk& b) {
  Place at, mbarrier, shared;
  if (!locate_one(w, i, l, static_cast<Space>(b.map_space), value(w, b.global, l), 128, 64, AccessKind::Read,
                  at))
    return;
  TensorMap bytes;
  std::memcpy(bytes.bytes.data(), at.host, 128);
  const TensorMapFields map = decode(bytes);
  if (const std::string wrong = problem(map); !wrong.empty())
    return fault(w, i, l, "uses 128 bytes that are no tensor map: " + wrong);
  // The fence of another block does not help. A fence of one thread serves all threads of its block, by a
  // barrier.
  if (auto made = w.execution.made_maps.find(reinterpret_cast<std::uint64_t>(at.host));
      made != w.execution.made_maps.end() && w.block.acquired_maps[made->first] != made->second)
    w.execution.add_finding(
        Fault::MissingProxyFence, w, i, l,
        "uses a tensor map that the kernel changed, and no thread of the block has acquired it since: "
        "fence.proxy.tensormap::generic.acquire");
  if (map.rank != b.tensor_rank)
    return fault(w, i, l,
                 "is for " + std::to_string(b.tensor_rank) + " dimensions, and the tensor map has " +
                     std::to_string(map.rank));
  if (map.interleave != TensorMapInterleave::None)
    return fault(w, i, l, "uses an interleaved tensor map, which the emulator does not support");
  if (b.reduces && !bulk_reduces(static_cast<Combine>(b.operation), element(map.type)))
    return fault(w, i, l, "does not exist for elements of the tensor map's type");
  std::int64_t start_at[5] = {};
  for (std::uint32_t k = 0; k < b.tensor_rank; ++k)
    start_at[k] = w.reg<std::int32_t>(b.coordinates[k])[l];
  std::uint64_t count = map.box[0] * bytes_of(map.type);
  for (std::size_t k = 1; k < map.rank; ++k)
    count *= (map.box[k] + map.element_strides[k] - 1) / map.element_strides[k];
  if (count > 256 << 10) return fault(w, i, l, "has a box of " + std::to_string(count) + " bytes");
  const bool prefetches = b.shared.at == no_register;
  if (!prefetches && !locate_one(w, i, l, b.loads ? Space::SharedCluster : Space::Shared,
                                 value(w, b.shared, l), static_cast<std::uint32_t>(count), 128,
                                 b.loads ? AccessKind::Write : AccessKind::Read, shared))
    return;
  if (b.mbarrier.at != no_register &&
      !locate_one(w, i, l, static_cast<Space>(b.mbarrier_space), value(w, b.mbarrier, l), 8, 8,
                  AccessKind::Atomic, mbarrier))
    return;
  Box box;
  const AccessKind kind = b.loads || prefetches ? AccessKind::Read
                          : b.reduces           ? AccessKind::Atomic
                                                : AccessKind::Write;
  if (!locate_box(w, i, l, map, start_at, kind, box) || prefetches) return;
  if (!b.loads) return store_box(w, i, l, b, map, box, shared);
  for (const Target& t : targets(w, i, l, b, shared, mbarrier))
    load_box(w, i, l, b, map, box, t);
}

} // namespace

bool bulk_reduces(Combine op, Type t) {
  const bool bits32 = t == Type::U32 || t == Type::S32 || t == Type::U64 || t == Type::S64;
  switch (op) {
  case Combine::Add: return bits32 || (ptx::is_float(t) && t != Type::F64) || t == Type::F64;
  case Combine::Min:
  case Combine::Max: return bits32 || t == Type::F16 || t == Type::BF16;
  case Combine::Inc:
  case Combine::Dec: return t == Type::U32;
  default: return bits32;
  }
}

void run_bulk(Warp& w, const Instruction& i, Mask m) {
  Bulk b;
  std::memcpy(static_cast<void*>(&b), w.extras(i), sizeof b);
  for (Mask rest = m; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (b.tensor_rank)
      copy_box(w, i, l, b);
    else
      copy_bytes(w, i, l, b);
  }
}

} // namespace kiln::emulator
