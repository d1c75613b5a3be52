// Computes the values of special registers, of the lane, the warp, the block and the launch.
#include "special_registers.h"

#include "block.h"

#include <unordered_map>

namespace kiln::emulator {
namespace {

enum Which : std::uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Lane,
  WarpId,
  NWarps,
  Sm,
  NSms,
  Grid,
  MaskEq,
  MaskLe,
  MaskLt,
  MaskGe,
  MaskGt,
  Clock,
  ClockHigh,
  DynamicShared,
  TotalShared,
  ClusterX,
  ClusterY,
  ClusterZ,
  NclusterX,
  NclusterY,
  NclusterZ,
  InClusterX,
  InClusterY,
  InClusterZ,
  ClusterSizeX,
  ClusterSizeY,
  ClusterSizeZ,
  ClusterRank,
  ClusterRanks,
  Explicit,
  ReservedBegin,
  ReservedEnd,
  ReservedSize,
  Environment, // 32 registers
};

std::uint32_t value(const Warp& w, std::uint8_t which, int lane) {
  const Execution& e = w.execution;
  const Block& b = w.block;
  const auto lane_bit = std::uint64_t(1) << lane;
  auto cluster = [&](int k) { return e.cluster[static_cast<std::size_t>(k)]; };
  const auto axis = [&](int first) { return static_cast<std::size_t>(which - first); };
  switch (which) {
  case TidX:
  case TidY:
  case TidZ: return w.tid[which - TidX][lane];
  case NtidX:
  case NtidY:
  case NtidZ: return e.launch.block[axis(NtidX)];
  case CtaidX:
  case CtaidY:
  case CtaidZ: return b.index[axis(CtaidX)];
  case NctaidX:
  case NctaidY:
  case NctaidZ: return e.launch.grid[axis(NctaidX)];
  case Lane: return static_cast<std::uint32_t>(lane);
  case WarpId: return static_cast<std::uint32_t>(w.index);
  case NWarps: return static_cast<std::uint32_t>(b.warps.size());
  case Sm: return (b.index[0] + b.index[1] * e.launch.grid[0]) % 132;
  case NSms: return 132;
  case Grid: return 1;
  case MaskEq: return static_cast<std::uint32_t>(lane_bit);
  case MaskLe: return static_cast<std::uint32_t>(2 * lane_bit - 1);
  case MaskLt: return static_cast<std::uint32_t>(lane_bit - 1);
  case MaskGe: return static_cast<std::uint32_t>(~(lane_bit - 1));
  case MaskGt: return static_cast<std::uint32_t>(~(2 * lane_bit - 1));
  case Clock: return static_cast<std::uint32_t>(e.report.warp_instructions);
  case ClockHigh: return static_cast<std::uint32_t>(e.report.warp_instructions >> 32);
  case DynamicShared: return static_cast<std::uint32_t>(e.launch.shared_bytes);
  case TotalShared: return static_cast<std::uint32_t>(b.shared.bytes);
  case ClusterX:
  case ClusterY:
  case ClusterZ: return b.index[axis(ClusterX)] / cluster(which - ClusterX);
  case NclusterX:
  case NclusterY:
  case NclusterZ: return e.launch.grid[axis(NclusterX)] / cluster(which - NclusterX);
  case InClusterX:
  case InClusterY:
  case InClusterZ: return b.index[axis(InClusterX)] % cluster(which - InClusterX);
  case ClusterSizeX:
  case ClusterSizeY:
  case ClusterSizeZ: return cluster(which - ClusterSizeX);
  case ClusterRank: return b.rank;
  case ClusterRanks: return static_cast<std::uint32_t>(b.cluster.size());
  case ReservedBegin: return static_cast<std::uint32_t>(b.reserved_at);
  case ReservedEnd: return static_cast<std::uint32_t>(b.reserved_at + reserved_shared_bytes);
  case ReservedSize: return static_cast<std::uint32_t>(reserved_shared_bytes);
  // These registers are the driver's. Only the two with the address of the grid's workspace are known.
  case Environment + 1: return static_cast<std::uint32_t>(e.workspace >> 32);
  case Environment + 2: return static_cast<std::uint32_t>(e.workspace);
  default: return 0;
  }
}

void read32(Warp& w, const Instruction& i, Mask m) {
  std::uint32_t* d = w.reg<std::uint32_t>(i.d);
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) d[l] = value(w, i.mode, l);
}
void read_time(Warp& w, const Instruction& i, Mask m) {
  std::uint64_t* d = w.reg<std::uint64_t>(i.d);
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) d[l] = w.execution.report.warp_instructions;
}
void read_pred(Warp& w, const Instruction& i, Mask m) {
  w.pred(i.d) = w.execution.clustered ? w.pred(i.d) | m : w.pred(i.d) & ~m;
}

constexpr SpecialRegister table[] = {
    {"%tid.x", 32, TidX, read32},
    {"%tid.y", 32, TidY, read32},
    {"%tid.z", 32, TidZ, read32},
    {"%ntid.x", 32, NtidX, read32},
    {"%ntid.y", 32, NtidY, read32},
    {"%ntid.z", 32, NtidZ, read32},
    {"%ctaid.x", 32, CtaidX, read32},
    {"%ctaid.y", 32, CtaidY, read32},
    {"%ctaid.z", 32, CtaidZ, read32},
    {"%nctaid.x", 32, NctaidX, read32},
    {"%nctaid.y", 32, NctaidY, read32},
    {"%nctaid.z", 32, NctaidZ, read32},
    {"%laneid", 32, Lane, read32},
    {"%warpid", 32, WarpId, read32},
    {"%nwarpid", 32, NWarps, read32},
    {"%smid", 32, Sm, read32},
    {"%nsmid", 32, NSms, read32},
    {"%gridid", 64, Grid, read_time},
    {"%lanemask_eq", 32, MaskEq, read32},
    {"%lanemask_le", 32, MaskLe, read32},
    {"%lanemask_lt", 32, MaskLt, read32},
    {"%lanemask_ge", 32, MaskGe, read32},
    {"%lanemask_gt", 32, MaskGt, read32},
    {"%clock", 32, Clock, read32},
    {"%clock_hi", 32, ClockHigh, read32},
    {"%clock64", 64, Clock, read_time},
    {"%globaltimer", 64, Clock, read_time},
    {"%globaltimer_lo", 32, Clock, read32},
    {"%globaltimer_hi", 32, ClockHigh, read32},
    {"%dynamic_smem_size", 32, DynamicShared, read32},
    {"%total_smem_size", 32, TotalShared, read32},
    {"%aggr_smem_size", 32, TotalShared, read32},
    {"%reserved_smem_offset_begin", 32, ReservedBegin, read32},
    {"%reserved_smem_offset_end", 32, ReservedEnd, read32},
    {"%reserved_smem_offset_cap", 32, ReservedSize, read32},
    {"%reserved_smem_offset_0", 32, ReservedBegin, read32},
    {"%reserved_smem_offset_1", 32, ReservedBegin, read32},
    {"%clusterid.x", 32, ClusterX, read32},
    {"%clusterid.y", 32, ClusterY, read32},
    {"%clusterid.z", 32, ClusterZ, read32},
    {"%nclusterid.x", 32, NclusterX, read32},
    {"%nclusterid.y", 32, NclusterY, read32},
    {"%nclusterid.z", 32, NclusterZ, read32},
    {"%cluster_ctaid.x", 32, InClusterX, read32},
    {"%cluster_ctaid.y", 32, InClusterY, read32},
    {"%cluster_ctaid.z", 32, InClusterZ, read32},
    {"%cluster_nctaid.x", 32, ClusterSizeX, read32},
    {"%cluster_nctaid.y", 32, ClusterSizeY, read32},
    {"%cluster_nctaid.z", 32, ClusterSizeZ, read32},
    {"%cluster_ctarank", 32, ClusterRank, read32},
    {"%cluster_nctarank", 32, ClusterRanks, read32},
    {"%is_explicit_cluster", 1, Explicit, read_pred},
};

} // namespace

const SpecialRegister* special_register(std::string_view name) {
  static const auto all = [] {
    std::unordered_map<std::string_view, const SpecialRegister*> m;
    for (const SpecialRegister& s : table)
      m.emplace(s.name, &s);
    static std::string names[32];
    static SpecialRegister environment[32];
    for (std::size_t n = 0; n < 32; ++n) {
      names[n] = "%envreg" + std::to_string(n);
      environment[n] = {names[n], 32, static_cast<std::uint8_t>(Environment + n), read32};
      m.emplace(names[n], &environment[n]);
    }
    return m;
  }();
  auto at = all.find(name);
  return at == all.end() ? nullptr : at->second;
}

void widen_special(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) w.reg<std::uint64_t>(i.d)[l] = w.reg<std::uint32_t>(i.a)[l];
}
void narrow_special(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1) w.reg<std::uint16_t>(i.d)[l] = static_cast<std::uint16_t>(w.reg<std::uint32_t>(i.a)[l]);
}
void add_offset64(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1)
      w.reg<std::uint64_t>(i.d)[l] = w.reg<std::uint64_t>(i.a)[l] + static_cast<std::uint64_t>(i.offset);
}
void add_offset32(Warp& w, const Instruction& i, Mask m) {
  for (int l = 0; l < warp_size; ++l)
    if (m >> l & 1)
      w.reg<std::uint32_t>(i.d)[l] =
          static_cast<std::uint32_t>(w.reg<std::uint64_t>(i.a)[l] + static_cast<std::uint64_t>(i.offset));
}

} // namespace kiln::emulator
