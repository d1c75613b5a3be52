// Reads the sources of asynchronous copies and reductions, and lets them land.
#include "transfer.h"

#include "block.h"
#include "mbarrier.h"
#include "number.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator {
namespace {

using ptx::Type;

template <class T> T combined(Combine op, T a, T b) { // integers
  using U = std::make_unsigned_t<T>;
  switch (op) {
  case Combine::Add: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  case Combine::Min: return std::min(a, b);
  case Combine::Max: return std::max(a, b);
  case Combine::Inc: return static_cast<U>(a) >= static_cast<U>(b) ? T(0) : static_cast<T>(a + 1);
  case Combine::Dec: return a == 0 || static_cast<U>(a) > static_cast<U>(b) ? b : static_cast<T>(a - 1);
  case Combine::And: return static_cast<T>(a & b);
  case Combine::Or: return static_cast<T>(a | b);
  case Combine::Xor: return static_cast<T>(a ^ b);
  }
  return a;
}
template <class F> F combined_float(Combine op, F a, F b) {
  if (op == Combine::Add) return a + b;
  if (a != a) return b;
  if (b != b) return a;
  const bool maximum = op == Combine::Max;
  if (a == b) return std::signbit(a) == maximum ? b : a;
  return (a < b) == maximum ? b : a;
}
float flushed(float f) { return std::fpclassify(f) == FP_SUBNORMAL ? std::copysign(0.0f, f) : f; }

template <class T, class F> void each(std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes, F f) {
  for (std::uint64_t n = 0; n + sizeof(T) <= bytes; n += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + n, sizeof(T));
    std::memcpy(&b, from + n, sizeof(T));
    a = f(a, b);
    std::memcpy(to + n, &a, sizeof(T));
  }
}

} // namespace

void combine(Combine op, Type type, std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes) {
  auto integers = [&]<class T>(T) {
    each<T>(to, from, bytes, [&](T a, T b) { return combined<T>(op, a, b); });
  };
  switch (type) {
  case Type::S32: return integers(std::int32_t());
  case Type::U32:
  case Type::B32: return integers(std::uint32_t());
  case Type::S64: return integers(std::int64_t());
  case Type::U64:
  case Type::B64: return integers(std::uint64_t());
  case Type::U8:
  case Type::B8: return integers(std::uint8_t());
  case Type::U16:
  case Type::B16: return integers(std::uint16_t());
  case Type::F16:
    return each<std::uint16_t>(to, from, bytes, [&](std::uint16_t a, std::uint16_t b) {
      return to_f16(combined_float(op, from_f16(a), from_f16(b)));
    });
  case Type::BF16:
    return each<std::uint16_t>(to, from, bytes, [&](std::uint16_t a, std::uint16_t b) {
      return to_bf16(combined_float(op, from_bf16(a), from_bf16(b)));
    });
  case Type::F32: // as red.global.add.f32
    return each<float>(to, from, bytes, [&](float a, float b) {
      return op == Combine::Add ? flushed(flushed(a) + flushed(b)) : combined_float(op, a, b);
    });
  case Type::F64:
    return each<double>(to, from, bytes, [&](double a, double b) { return combined_float(op, a, b); });
  default: return;
  }
}

void Transfer::remember() {
  std::size_t n = 0;
  for (const Piece& p : pieces)
    if (p.from) n += p.bytes;
  before_.resize(n);
  n = 0;
  for (const Piece& p : pieces)
    if (p.from) {
      std::memcpy(before_.data() + n, p.from, p.bytes);
      n += p.bytes;
    }
}

void Transfer::poison() {
  remember();
  if (combines) return;
  for (const Piece& p : pieces) {
    for (std::uint32_t b = 0; b < p.bytes; ++b)
      p.to[b] = b & 1 ? 0x7f : 0xff; // a NaN of every width
    if (p.shadow) std::memset(p.shadow, 0, p.bytes);
  }
  if (into_shared) { // accesses of it are reported until it has landed (access.cpp)
    const auto granules = destination->bytes / Region::granule + 1;
    if (destination->landing.size() < granules) destination->landing.resize(granules);
    for (const Piece& p : pieces)
      for (auto n = static_cast<std::uint64_t>(p.to - destination->data) / Region::granule;
           n <= static_cast<std::uint64_t>(p.to + p.bytes - 1 - destination->data) / Region::granule; ++n)
        ++destination->landing[n];
    marked_ = true;
  }
}

void Transfer::read(Mask lanes) {
  std::size_t total = 0;
  for (const Piece& p : pieces)
    total += p.bytes;
  data_.resize(total);
  std::size_t n = 0, old = 0;
  bool changed = false;
  for (const Piece& p : pieces) {
    if (lanes >> p.lane & 1) {
      if (p.from_shadow) {
        written_.resize(total);
        std::memcpy(written_.data() + n, p.from_shadow, p.bytes);
      }
      if (p.from) {
        std::memcpy(data_.data() + n, p.from, p.bytes);
        if (!before_.empty()) changed |= std::memcmp(before_.data() + old, p.from, p.bytes) != 0;
      } else {
        for (std::uint32_t b = 0; b < p.bytes; ++b)
          data_[n + b] = static_cast<std::uint8_t>(fill >> (8 * (b & 3)));
      }
    }
    if (p.from) old += p.bytes;
    n += p.bytes;
  }
  if (changed && !changed_) {
    changed_ = true;
    warp->execution.add_finding(
        Fault::InFlight, *warp, *instruction, std::countr_zero(lanes),
        "reads a source that changed while it was under way: nothing may write there before a wait "
        "for it");
  }
  if (flush)
    for (std::size_t at = 0; at + 4 <= total; at += 4) {
      float f;
      std::memcpy(&f, data_.data() + at, 4);
      f = flushed(f);
      std::memcpy(data_.data() + at, &f, 4);
    }
}

void Transfer::land(Block& from, Mask lanes) {
  std::size_t n = 0;
  for (const Range& r : ranges)
    if (r.block && r.block != &from && r.kind != AccessKind::Read && r.block->done())
      warp->execution.add_finding(
          Fault::Unfinished, *warp, *instruction, std::countr_zero(this->lanes),
          "lands in shared memory of a block of the cluster whose threads have all exited: they must "
          "wait for it, or for each other");
  for (const Piece& p : pieces) {
    if (lanes >> p.lane & 1) {
      if (combines)
        combine(operation, type, p.to, data_.data() + n, p.bytes);
      else
        std::memcpy(p.to, data_.data() + n, p.bytes);
      if (p.shadow) std::memset(p.shadow, 1, p.bytes);
      if (p.shadow && p.from_shadow)
        land_unwritten(from.execution, *instruction, p.from, p.to, written_.data() + n, p.shadow, p.bytes);
      if (marked_)
        for (auto g = static_cast<std::uint64_t>(p.to - destination->data) / Region::granule;
             g <= static_cast<std::uint64_t>(p.to + p.bytes - 1 - destination->data) / Region::granule; ++g)
          --destination->landing[g];
    }
    n += p.bytes;
  }
  if (mbarrier && !in_flight) count_on_mbarrier(from, *this, mbarrier, counted, 0);
}

void Arrival::land(Block& from, Mask lanes) {
  for (; lanes; lanes &= lanes - 1)
    count_on_mbarrier(from, *this, mbarrier[std::countr_zero(lanes)], 0, 1);
}

void count_on_mbarrier(Block& block, const AsyncOperation& op, std::uint8_t* mbarrier, std::uint64_t bytes,
                       std::uint64_t arrivals) {
  std::uint64_t word;
  std::memcpy(&word, mbarrier, 8);
  MbarrierState s(word);
  Probe* probe = block.execution.probe;
  auto fault = [&](const std::string& what) {
    block.execution.add_finding(Fault::IllegalOperand, *op.warp, *op.instruction, std::countr_zero(op.lanes),
                                what);
  };
  if (!s.valid) return fault("completes on memory that is no mbarrier, or no longer one");
  if (arrivals > s.pending) return fault("arrives at an mbarrier that expects no more arrivals");
  s.bytes -= static_cast<std::int64_t>(bytes);
  s.pending -= arrivals;
  if (s.bytes < -MbarrierState::most_bytes)
    fault("has delivered " + std::to_string(-s.bytes) + " bytes more than its mbarrier expects");
  if (probe) probe->counted(op, mbarrier, bytes);
  const bool phase = s.phase;
  s.complete();
  word = s.word();
  std::memcpy(mbarrier, &word, 8);
  if (probe && s.phase != phase) probe->mbarrier_phase_ended(mbarrier);
}

} // namespace kiln::emulator
