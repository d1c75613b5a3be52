// Checks each lane of an access by its state space: bounds, alignment, lifetime, unwritten bytes.
#include "access.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

namespace kiln::emulator {
namespace {

using ptx::Space;

const char* verb(AccessKind kind) {
  return kind == AccessKind::Read ? "reads" : kind == AccessKind::Write ? "writes" : "updates";
}

class Locator {
public:
  Locator(Warp& w, const Instruction& i, std::uint32_t bytes, std::uint32_t align, AccessKind kind,
          Located& to, Purpose purpose, const std::uint16_t* touched = nullptr)
      : w_(w), i_(i), bytes_(bytes), align_(align), kind_(kind), to_(to), purpose_(purpose),
        touched_(touched) {}

  void lane(int l, Space space) {
    std::uint64_t a = to_.address[l];
    if (space == Space::Generic) {
      switch (a & window_mask) {
      case 0: space = Space::Global; break;
      case shared_window: space = Space::SharedCluster; break;
      case local_window: space = Space::Local; break;
      case param_window: space = Space::Param; break;
      default: return fault(Fault::OutOfBounds, l, "in no memory");
      }
      a &= ~window_mask;
    }
    global_ = space == Space::Global || space == Space::Const;
    if (a & (align_ - 1))
      return fault(Fault::Misaligned, l, "where a multiple of " + std::to_string(align_) + " is needed");
    switch (space) {
    case Space::Global:
    case Space::Const: return global(l, a, space);
    case Space::Shared:
    case Space::SharedCluster: return shared(l, a, space);
    case Space::Local: return local(l, a);
    case Space::Param: return param(l, a);
    case Space::Generic: break;
    }
  }

private:
  void fault(Fault f, int l, const std::string& where) {
    w_.execution.add_finding(
        f, w_, i_, l,
        std::string(verb(kind_)) + " " + std::to_string(bytes_) + " bytes at " +
            hexadecimal(global_ ? w_.execution.allocations.shown(to_.address[l]) : to_.address[l]) + ", " +
            where);
  }

  // The bytes up to the last one that is touched, at least one.
  static std::uint64_t touched_bytes(std::uint16_t touched) {
    return std::max<std::uint64_t>(static_cast<std::uint64_t>(std::bit_width(touched)), 1);
  }

  bool all_written(const std::uint8_t* shadow) const {
    constexpr std::uint64_t ones = 0x0101010101010101;
    std::uint64_t v[2];
    switch (bytes_) {
    case 4: return std::memcmp(shadow, &ones, 4) == 0;
    case 8: return std::memcmp(shadow, &ones, 8) == 0;
    case 16: std::memcpy(v, shadow, 16); return v[0] == ones && v[1] == ones;
    default: return std::all_of(shadow, shadow + bytes_, [](std::uint8_t b) { return b == 1; });
    }
  }
  void unwritten(int l, Region* region, const std::uint8_t* shadow) {
    if (i_.tracks_unwritten) {
      to_.unwritten |= Mask(1) << l;
      return;
    }
    for (std::uint32_t b = 0; b < bytes_; ++b)
      if (shadow[b] != 1 && (b >= 32 || i_.used_bytes >> b & 1))
        return fault(Fault::Uninitialised, l,
                     "which nothing wrote" + (b ? " from byte " + std::to_string(b) + " on" : std::string()) +
                         ": " +
                         (region->kind == Region::Kind::Global
                              ? w_.execution.allocations.describe(to_.address[l], bytes_)
                              : region->name));
  }

  void accept(int l, std::uint8_t* host, Region* region, std::uint8_t* shadow) {
    to_.host[l] = host;
    to_.region[l] = region;
    to_.lanes |= Mask(1) << l;
    if (!shadow) return;
    if (touched_) return accept_touched(l, region, shadow);
    if (kind_ != AccessKind::Write && !all_written(shadow)) unwritten(l, region, shadow);
    if (kind_ != AccessKind::Read) std::memset(shadow, 1, bytes_);
  }

  void accept_touched(int l, Region* region, std::uint8_t* shadow) {
    bool reported = false;
    for (std::uint32_t b = 0; b < bytes_; ++b) {
      if (!(touched_[l] >> b & 1)) continue;
      if (shadow[b] != 1 && !std::exchange(reported, true)) unwritten(l, region, shadow);
      shadow[b] = 1;
    }
  }

  void global(int l, std::uint64_t a, Space space) {
    Allocations& all = w_.execution.allocations;
    Region* r = all.containing(a, touched_ ? touched_bytes(touched_[l]) : bytes_);
    if (!r) return fault(Fault::OutOfBounds, l, all.describe(a, bytes_));
    if (!r->alive) return fault(Fault::UseAfterFree, l, "which was freed: " + all.describe(a, bytes_));
    if (kind_ != AccessKind::Read && (!r->writable || space == Space::Const))
      return fault(Fault::ReadOnly, l, "which is read only: " + all.describe(a, bytes_));
    accept(l, reinterpret_cast<std::uint8_t*>(a), r,
           r->shadow.empty() ? nullptr : r->shadow.data() + (a - r->base));
  }

  void shared(int l, std::uint64_t a, Space space) {
    Block* block = &w_.block;
    if (std::uint64_t rank = a >> cluster_shift) {
      if (rank > block->cluster.size()) return fault(Fault::OutOfBounds, l, "in no block's shared memory");
      Block* other = block->cluster[rank - 1];
      if (other != block && space == Space::Shared)
        return fault(Fault::OutOfBounds, l,
                     "in another block's shared memory, which requires .shared::cluster");
      if (other != block && other->done())
        return fault(Fault::UseAfterFree, l, "in the shared memory of a block whose threads have all exited");
      block = other;
      a &= (std::uint64_t(1) << cluster_shift) - 1;
    }
    Region& r = block->shared;
    if (a >= r.bytes || bytes_ > r.bytes - a)
      return fault(Fault::OutOfBounds, l,
                   "and the block has " + std::to_string(r.bytes) + " bytes of shared memory");
    if (!r.landing.empty())
      for (std::uint64_t n = a / Region::granule; n <= (a + bytes_ - 1) / Region::granule; ++n)
        if (r.landing[n]) {
          fault(Fault::InFlight, l,
                "where an asynchronous copy has not landed yet: wait for it" +
                    std::string(purpose_ == Purpose::Copied ? " first" : ""));
          break;
        }
    if (!r.mbarriers.empty() && purpose_ == Purpose::Data && r.live_mbarrier(a, bytes_))
      fault(Fault::LiveMbarrier, l,
            "which " + block->mbarrier_at(r, a, bytes_) + ": invalidate it first (mbarrier.inval)");
    accept(l, r.data + a, &r, r.shadow.empty() ? nullptr : r.shadow.data() + a);
  }

  void local(int l, std::uint64_t a) {
    if (a >= w_.local_bytes() || bytes_ > w_.local_bytes() - a || a % 32 + bytes_ > 32)
      return fault(Fault::OutOfBounds, l,
                   "and the thread has " + std::to_string(w_.local_bytes()) + " bytes of local memory");
    std::uint8_t* host = w_.local(l, a);
    static Region region = [] {
      Region r;
      r.kind = Region::Kind::Local;
      r.name = "local memory";
      return r;
    }();
    accept(l, host, &region,
           w_.local_shadow().empty() ? nullptr : w_.local_shadow().data() + (host - w_.local_data()));
  }

  void param(int l, std::uint64_t a) {
    static Region region = [] {
      Region r;
      r.kind = Region::Kind::Param;
      r.name = "parameters";
      return r;
    }();
    if (a < frame_params) {
      auto& params = w_.execution.params;
      if (a >= params.size() || bytes_ > params.size() - a)
        return fault(Fault::OutOfBounds, l,
                     "and the kernel has " + std::to_string(params.size()) + " bytes of parameters");
      if (kind_ != AccessKind::Read)
        return fault(Fault::ReadOnly, l, "which is read only: a parameter of the kernel");
      return accept(l, params.data() + a, &region, nullptr);
    }
    a -= frame_params;
    const std::uint64_t stride = w_.frame()->function->param_bytes;
    if (a >= stride || bytes_ > stride - a)
      return fault(Fault::OutOfBounds, l,
                   "and the function has " + std::to_string(stride) + " bytes of parameters");
    const std::uint64_t at = static_cast<std::uint64_t>(l) * stride + a;
    auto& shadow = w_.frame()->param_shadow;
    accept(l, w_.frame()->params.data() + at, &region, shadow.empty() ? nullptr : shadow.data() + at);
  }

  Warp& w_;
  const Instruction& i_;
  std::uint32_t bytes_, align_;
  bool global_ = false;
  AccessKind kind_;
  Located& to_;
  Purpose purpose_;
  const std::uint16_t* touched_;
};

// The fast path: all lanes are in one live region of global memory without a shadow, and need no further
// check.
bool within_one(Warp& w, Mask lanes, std::uint32_t bytes, std::uint32_t align, AccessKind kind, Located& to) {
  std::uint64_t low = ~std::uint64_t(0), high = 0, low_bits = 0;
  if (lanes == all_lanes) {
    for (int l = 0; l < warp_size; ++l) {
      const std::uint64_t a = to.address[l];
      low = a < low ? a : low;
      high = a > high ? a : high;
      low_bits |= a;
    }
  } else {
    for (Mask rest = lanes; rest; rest &= rest - 1) {
      const std::uint64_t a = to.address[std::countr_zero(rest)];
      low = a < low ? a : low;
      high = a > high ? a : high;
      low_bits |= a;
    }
  }
  if (low_bits & (align - 1)) return false;
  Region* r = w.execution.allocations.containing(low, high - low + bytes);
  if (!r || !r->alive || !r->shadow.empty() || (kind != AccessKind::Read && !r->writable)) return false;
  for (int l = 0; l < warp_size; ++l) {
    to.host[l] = reinterpret_cast<std::uint8_t*>(to.address[l]);
    to.region[l] = r;
  }
  to.lanes = lanes;
  return true;
}

} // namespace

void addresses(const Warp& w, const Instruction& i, Mask lanes, std::uint64_t* to) {
  const std::uint64_t offset = static_cast<std::uint64_t>(i.offset);
  if (i.mode2 == 64) {
    const std::uint64_t* a = w.reg<std::uint64_t>(i.a);
    for (int l = 0; l < warp_size; ++l)
      to[l] = a[l] + offset;
  } else {
    const std::uint32_t* a = w.reg<std::uint32_t>(i.a);
    for (int l = 0; l < warp_size; ++l)
      to[l] = static_cast<std::uint32_t>(a[l] + offset);
  }
}

void locate(Warp& w, const Instruction& i, Mask lanes, Space space, std::uint32_t bytes, std::uint32_t align,
            AccessKind kind, Located& to, Purpose purpose, const std::uint8_t* data,
            const std::uint16_t* touched) {
  to.lanes = to.unwritten = 0;
  const bool quick = (space == Space::Global || space == Space::Generic ||
                      (space == Space::Const && kind == AccessKind::Read)) &&
                     within_one(w, lanes, bytes, align, kind, to);
  if (!quick) {
    Locator locator(w, i, bytes, align, kind, to, purpose, touched);
    for (Mask rest = lanes; rest; rest &= rest - 1)
      locator.lane(std::countr_zero(rest), space);
  }
  w.execution.observations += kind != AccessKind::Write;
  if (kind == AccessKind::Write && to.lanes) {
    const Region::Kind region = to.region[std::countr_zero(to.lanes)]->kind;
    w.execution.events += region < Region::Kind::Local;
    w.execution.lasting_events += region < Region::Kind::Shared;
  }
  if (Probe* probe = w.execution.probe; probe && to.lanes)
    probe->access(
        {w, i, kind, purpose == Purpose::Copied, to.lanes, bytes, to.host, to.region, data, touched});
}

bool locate_one(Warp& w, const Instruction& i, int lane, Space space, std::uint64_t address,
                std::uint32_t bytes, std::uint32_t align, AccessKind kind, Place& to) {
  Located at;
  at.address[lane] = address;
  Locator(w, i, bytes, align, kind, at, Purpose::Copied).lane(lane, space);
  if (!at.lanes) return false;
  to = {at.host[lane], at.region[lane], nullptr, nullptr};
  if (!to.region->shadow.empty()) to.shadow = to.region->shadow.data() + (to.host - to.region->data);
  if (to.region->kind == Region::Kind::Shared)
    for (Block* b : w.block.cluster)
      if (&b->shared == to.region) to.block = b;
  return true;
}

} // namespace kiln::emulator
