// Decodes and issues st.async and red.async.
//
// Each lane stores into shared memory of a block of the cluster, or updates it, and an mbarrier of that block
// counts the bytes.
#include "decoder.h"
#include <kiln/jit/emulator/core/access.h>
#include <kiln/jit/emulator/core/transfer.h>

#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

// The values are read from registers when the instruction is issued.
struct RemoteStore : Transfer {
  alignas(16) std::uint8_t values[warp_size][16];
};

// extras: registers of the elements, then the mbarrier's register, its width and its offset in two words.
// mode: the Combine, or store_form; count: the number of elements
constexpr std::uint8_t store_form = 255;

void run(Warp& w, const Instruction& i, Mask m) {
  const std::uint32_t* registers = w.extras(i);
  const std::uint32_t size = static_cast<std::uint32_t>(bits_of(i.type)) / 8, bytes = size * i.count;
  Instruction barrier = i;
  barrier.a = registers[i.count];
  barrier.mode2 = static_cast<std::uint8_t>(registers[i.count + 1]);
  std::memcpy(&barrier.offset, registers + i.count + 2, 8);
  std::uint64_t data[warp_size], counters[warp_size];
  addresses(w, i, m, data);
  addresses(w, barrier, m, counters);
  const AccessKind kind = i.mode == store_form ? AccessKind::Write : AccessKind::Atomic;
  std::vector<std::unique_ptr<RemoteStore>> operations; // one for each mbarrier
  for (; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    Place to, mbarrier;
    if (!locate_one(w, i, l, i.space, data[l], bytes, bytes, kind, to) ||
        !locate_one(w, i, l, i.space, counters[l], 8, 8, AccessKind::Atomic, mbarrier))
      continue;
    if (!to.block || to.block != mbarrier.block) {
      w.execution.add_finding(Fault::IllegalOperand, w, i, l,
                              to.block && mbarrier.block
                                  ? "writes shared memory of one block and counts on an mbarrier of another"
                                  : "requires addresses of shared memory");
      continue;
    }
    RemoteStore* op = nullptr;
    for (auto& known : operations)
      if (known->mbarrier == mbarrier.host) op = known.get();
    if (!op) {
      op = operations.emplace_back(std::make_unique<RemoteStore>()).get();
      op->kind = AsyncOperation::Kind::Bulk;
      op->queue = AsyncOperation::Queue::Mbarrier;
      op->warp = &w;
      op->instruction = &i;
      op->combines = i.mode != store_form;
      op->operation = static_cast<Combine>(i.mode);
      op->type = i.type;
      op->mbarrier = mbarrier.host;
      op->into_shared = true;
      op->destination = to.region;
    }
    for (std::uint32_t k = 0; k < i.count; ++k) {
      std::uint8_t* v = op->values[l] + k * size;
      if (size == 4)
        std::memcpy(v, w.reg<std::uint32_t>(registers[k]) + l, 4);
      else
        std::memcpy(v, w.reg<std::uint64_t>(registers[k]) + l, 8);
    }
    op->lanes |= Mask(1) << l;
    op->counted += bytes;
    op->add(to.host, op->values[l], bytes, to.shadow, l);
    op->ranges.push_back({kind, to.host, bytes, to.region, to.block, l});
  }
  for (auto& op : operations)
    w.block.async_operations.issue(std::move(op));
}

bool updates(Combine op, Type t) {
  switch (op) {
  case Combine::Add: return t == Type::U32 || t == Type::S32 || t == Type::U64 || t == Type::S64;
  case Combine::Min:
  case Combine::Max: return t == Type::U32 || t == Type::S32;
  case Combine::Inc:
  case Combine::Dec: return t == Type::U32;
  default: return t == Type::B32;
  }
}

} // namespace

void remote_store(Decoder& d, bool update) {
  Instruction i = d.plain(run);
  i.kind = InstructionClass::Asynchronous;
  i.space = d.take("shared::cluster") ? Space::SharedCluster : Space::Generic;
  if (!d.take("mbarrier::complete_tx::bytes"))
    d.fail(quoted(d.statement().opcode) +
           " is not known to the emulator, which supports the form that an mbarrier counts, "
           ".mbarrier::complete_tx::bytes");
  i.mode = store_form;
  if (update) {
    if (!d.take("relaxed") || !d.take("cluster")) d.fail("red.async is .relaxed.cluster");
    i.mode = static_cast<std::uint8_t>(take_combine(d));
  } else {
    d.take("weak");
  }
  const std::string_view v = update ? "" : d.take_one_of({"v2", "v4"});
  i.count = v.empty() ? 1 : static_cast<std::uint32_t>(v[1] - '0');
  i.type = d.take_type();
  const int bits = bits_of(i.type);
  if ((bits != 32 && bits != 64) || bits * static_cast<int>(i.count) > 128 ||
      (update && !updates(static_cast<Combine>(i.mode), i.type)))
    d.unknown(i.type);
  d.expect_operands(3);
  const Address to = d.address(d.operand(0)), mbarrier = d.address(d.operand(2));
  to.put_into(i);
  std::vector<std::uint32_t> words;
  for (const Operand* o : d.vector(d.operand(1), i.count))
    words.push_back(d.source(*o, i.type));
  words.insert(words.end(), {mbarrier.reg, static_cast<std::uint32_t>(mbarrier.width),
                             static_cast<std::uint32_t>(mbarrier.offset),
                             static_cast<std::uint32_t>(mbarrier.offset >> 32)});
  i.extra = d.extras(words);
  d.emit(i);
}

} // namespace kiln::emulator
