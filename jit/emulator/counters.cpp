// Counts accesses while a kernel runs, and its instructions when it has ended.
#include "counters.h"

#include <kiln/jit/emulator/core/block.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <set>
#include <unordered_map>

namespace kiln::emulator {

namespace {

constexpr std::uint64_t sector = 32;
constexpr int banks = 32;

// The addresses of the lanes of an access.
struct Lanes {
  std::array<std::uint64_t, warp_size> at;
  int count = 0;
};

std::uint64_t distinct(std::uint64_t* first, std::uint64_t* last) {
  std::sort(first, last);
  return static_cast<std::uint64_t>(std::unique(first, last) - first);
}

void count_sectors(const Lanes& lanes, std::uint64_t bytes, Counts& c) {
  std::array<std::uint64_t, warp_size * 5> touched; // up to 128 bytes per lane, not aligned
  std::size_t n = 0;
  for (int l = 0; l < lanes.count; ++l) {
    const std::uint64_t a = lanes.at[static_cast<std::size_t>(l)];
    for (std::uint64_t s = a / sector; s <= (a + bytes - 1) / sector && n < touched.size(); ++s)
      touched[n++] = s;
  }
  c.sectors += distinct(touched.data(), touched.data() + n);
  Lanes sorted = lanes;
  const std::uint64_t pieces = distinct(sorted.at.data(), sorted.at.data() + sorted.count);
  c.ideal_sectors += (pieces * bytes + sector - 1) / sector;
}

// The wavefronts of one pass: the number of different words in the busiest bank.
std::uint64_t wavefronts(const std::uint64_t* first, int lanes, std::uint64_t bytes) {
  std::array<std::uint64_t, warp_size * 4> words;
  std::size_t n = 0;
  for (int l = 0; l < lanes; ++l)
    for (std::uint64_t w = first[l] / 4; w <= (first[l] + bytes - 1) / 4 && n < words.size(); ++w)
      words[n++] = w;
  const std::uint64_t different = distinct(words.data(), words.data() + n);
  std::array<std::uint64_t, banks> of_bank{};
  for (std::uint64_t k = 0; k < different; ++k)
    ++of_bank[words[k] % banks];
  return *std::max_element(of_bank.begin(), of_bank.end());
}

void count_wavefronts(const Access& a, Counts& c) {
  const int passes = a.bytes >= 16 ? 4 : a.bytes == 8 ? 2 : 1, of_pass = warp_size / passes;
  for (int p = 0; p < passes; ++p) {
    std::array<std::uint64_t, warp_size> at;
    int n = 0;
    for (int l = p * of_pass; l < (p + 1) * of_pass; ++l)
      if (a.lanes >> l & 1)
        at[static_cast<std::size_t>(n++)] = static_cast<std::uint64_t>(a.host[l] - a.region[l]->data);
    if (!n) continue;
    const std::uint64_t w = wavefronts(at.data(), n, a.bytes);
    c.wavefronts += w;
    c.bank_conflicts += w - 1;
  }
}

void count_bytes(SpaceCounts& s, AccessKind kind, std::uint64_t bytes) {
  ++s.requests;
  if (kind != AccessKind::Write) s.read_bytes += bytes;
  if (kind != AccessKind::Read) s.written_bytes += bytes;
}

// The operations of an instruction, twice the product of its shape: 4096 for "mma.sync.aligned.m16n8k16...".
std::uint64_t operations_of(const std::string& opcode) {
  if (opcode.find("mma") == std::string::npos) return 0;
  for (std::size_t at = opcode.find(".m"); at != std::string::npos; at = opcode.find(".m", at + 1)) {
    unsigned m = 0, n = 0, k = 0;
    if (std::sscanf(opcode.c_str() + at, ".m%un%uk%u", &m, &n, &k) != 3) continue;
    const std::uint64_t dense = std::uint64_t{2} * m * n * k;
    return opcode.find(".sp") == std::string::npos ? dense : dense / 2;
  }
  return 0;
}

} // namespace

// --- Counts ------------------------------------------------------------------------------------------------

double Counts::sectors_per_request() const {
  return global.requests ? static_cast<double>(sectors) / static_cast<double>(global.requests) : 0;
}

double Counts::lanes_per_instruction() const {
  return warp_instructions ? static_cast<double>(lane_instructions) / static_cast<double>(warp_instructions)
                           : 0;
}

Counts& Counts::operator+=(const Counts& o) {
  auto add = [](SpaceCounts& a, const SpaceCounts& b) {
    a.requests += b.requests;
    a.read_bytes += b.read_bytes;
    a.written_bytes += b.written_bytes;
  };
  warp_instructions += o.warp_instructions;
  lane_instructions += o.lane_instructions;
  for (std::size_t k = 0; k < instruction_classes; ++k) {
    warps_by_class[k] += o.warps_by_class[k];
    lanes_by_class[k] += o.lanes_by_class[k];
  }
  add(global, o.global);
  add(shared, o.shared);
  add(local, o.local);
  add(constant, o.constant);
  sectors += o.sectors;
  ideal_sectors += o.ideal_sectors;
  wavefronts += o.wavefronts;
  bank_conflicts += o.bank_conflicts;
  tensor_instructions += o.tensor_instructions;
  tensor_operations += o.tensor_operations;
  async_copies += o.async_copies;
  async_bytes += o.async_bytes;
  most_stages = std::max(most_stages, o.most_stages);
  most_async_bytes = std::max(most_async_bytes, o.most_async_bytes);
  return *this;
}

// --- While a launch runs -----------------------------------------------------------------------------------

struct Counters::Memory {
  std::unordered_map<const Instruction*, Counts> counts;
  const Instruction* last = nullptr;
  Counts* last_counts = nullptr;
  std::uint64_t blocks = 0;
  // The asynchronous copies of a warp that are under way, by group or, for bulk copies, one by one.
  struct InFlight {
    std::uint64_t bytes = 0;
    std::map<std::pair<int, std::uint64_t>, std::uint64_t> stages; // number of operations in each
  };
  std::unordered_map<const Warp*, InFlight> warps;
  struct Operation {
    const Warp* warp;
    std::pair<int, std::uint64_t> stage;
    std::uint64_t bytes;
  };
  std::unordered_map<std::uint64_t, Operation> operations;
};

Counters::Counters() : memory_(std::make_unique<Memory>()) {}
Counters::~Counters() = default;

void Counters::clear() {
  kernels_.clear();
  *memory_ = {};
}

Counts& Counters::of(const Instruction& i) {
  Memory& m = *memory_;
  if (m.last != &i) {
    m.last = &i;
    m.last_counts = &m.counts[&i]; // references stay valid when the map grows
  }
  return *m.last_counts;
}

void Counters::block_started(Block&) { ++memory_->blocks; }

void Counters::access(const Access& a) {
  Counts& c = of(a.instruction);
  const int first = std::countr_zero(a.lanes);
  const std::uint64_t bytes = std::uint64_t{a.bytes} * static_cast<std::uint64_t>(std::popcount(a.lanes));
  switch (a.region[first]->kind) { // lanes of one access are mostly in one space; the first lane decides
  case Region::Kind::Global: {
    Lanes lanes;
    for (Mask rest = a.lanes; rest; rest &= rest - 1)
      lanes.at[static_cast<std::size_t>(lanes.count++)] =
          reinterpret_cast<std::uint64_t>(a.host[std::countr_zero(rest)]);
    count_sectors(lanes, a.bytes, c);
    return count_bytes(c.global, a.kind, bytes);
  }
  case Region::Kind::Shared: count_wavefronts(a, c); return count_bytes(c.shared, a.kind, bytes);
  case Region::Kind::Local: return count_bytes(c.local, a.kind, bytes);
  case Region::Kind::Constant:
  case Region::Kind::Param: return count_bytes(c.constant, a.kind, bytes);
  }
}

void Counters::issued(const AsyncOperation& op) {
  if (op.kind == AsyncOperation::Kind::Wgmma) return;
  Counts& c = of(*op.instruction);
  std::uint64_t written = 0;
  for (const Range& r : op.ranges)
    if (r.kind != AccessKind::Read) written += r.bytes;
  // Bulk and tensor copies do not call access().
  if (op.kind != AsyncOperation::Kind::Copy)
    for (const Range& r : op.ranges) {
      if (!r.region) continue;
      const bool shared = r.region->kind == Region::Kind::Shared;
      count_bytes(shared ? c.shared : c.global, r.kind, r.bytes);
      if (shared) continue;
      const auto at = reinterpret_cast<std::uint64_t>(r.host);
      const std::uint64_t n = r.bytes ? (at + r.bytes - 1) / sector - at / sector + 1 : 0;
      c.sectors += n;
      c.ideal_sectors += (r.bytes + sector - 1) / sector;
    }
  ++c.async_copies;
  c.async_bytes += written;
  const bool grouped = op.queue != AsyncOperation::Queue::Mbarrier;
  const std::pair<int, std::uint64_t> stage{static_cast<int>(op.queue), grouped ? op.group : op.id};
  Memory::InFlight& in_flight = memory_->warps[op.warp];
  in_flight.bytes += written;
  ++in_flight.stages[stage];
  memory_->operations[op.id] = {op.warp, stage, written};
  c.most_stages = std::max<std::uint64_t>(c.most_stages, in_flight.stages.size());
  c.most_async_bytes = std::max(c.most_async_bytes, in_flight.bytes);
}

void Counters::landed(const AsyncOperation& op) {
  auto at = memory_->operations.find(op.id);
  if (at == memory_->operations.end()) return;
  const Memory::Operation operation = at->second;
  memory_->operations.erase(at);
  Memory::InFlight& in_flight = memory_->warps[operation.warp];
  in_flight.bytes -= operation.bytes;
  if (--in_flight.stages[operation.stage] == 0) in_flight.stages.erase(operation.stage);
}

void Counters::launch_finished(const Execution& e) {
  auto kernel = std::find_if(kernels_.begin(), kernels_.end(),
                             [&](const Kernel& k) { return k.name == e.program.kernel; });
  if (kernel == kernels_.end()) kernel = kernels_.insert(kernels_.end(), Kernel{e.program.kernel, 0, 0, {}});
  ++kernel->launches;
  kernel->blocks += memory_->blocks;
  for (const auto& f : e.program.functions)
    for (std::size_t n = 0; n < f->code.size(); ++n) {
      const Instruction& i = f->code[n];
      const Tally& tally = e.tallies[f->first + n];
      if (!tally.warps) continue;
      Counts c;
      if (auto m = memory_->counts.find(&i); m != memory_->counts.end()) c = m->second;
      const auto kind = static_cast<std::size_t>(i.kind);
      c.warp_instructions = c.warps_by_class[kind] = tally.warps;
      c.lane_instructions = c.lanes_by_class[kind] = tally.lanes;
      if (i.kind == InstructionClass::Tensor)
        if (const std::uint64_t operations = operations_of(f->opcodes[n])) {
          c.tensor_instructions = tally.lanes / warp_size;
          c.tensor_operations = operations * c.tensor_instructions;
          // All four warps of a warpgroup execute the same wgmma.
          if (f->opcodes[n].starts_with("wgmma")) c.tensor_operations /= 4;
        }
      Line line{e.program.module, i.line};
      if (i.location >= 0 && static_cast<std::size_t>(i.location) < e.program.locations.size()) {
        const ptx::Location& l = e.program.locations[static_cast<std::size_t>(i.location)];
        auto file = e.program.files.find(l.file);
        if (file != e.program.files.end() && l.line > 0) line = {file->second, l.line};
      }
      kernel->lines[line] += c;
    }
  *memory_ = {};
}

std::vector<KernelCounts> Counters::kernels() const {
  std::vector<KernelCounts> all;
  for (const Kernel& k : kernels_) {
    KernelCounts counts{k.name, k.launches, k.blocks, {}, {}};
    for (const auto& [line, c] : k.lines) {
      counts.all += c;
      counts.lines.push_back({line.file + ":" + std::to_string(line.number), c});
    }
    all.push_back(std::move(counts));
  }
  return all;
}

std::string Counters::text() const { return text_of(kernels()); }
std::string Counters::json() const { return json_of(kernels()); }

} // namespace kiln::emulator
