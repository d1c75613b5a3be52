// Implements the calls of communicators that are no collectives of tensors.
#include <kiln/collectives/communicator.h>

#include <kiln/collectives/arrays.h>
#include <kiln/collectives/gather_numbers.h>
#include <kiln/collectives/lanes.h>
#include <kiln/collectives/schedule/schedule_cache.h>
#include <kiln/collectives/symmetric_memory.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/ops/detail/checks.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace kiln::collectives {

Communicator::Communicator(int rank, int size, Device device, std::int64_t workspace_limit)
    : rank_(rank), size_(size), device_(device), workspace_limit_(workspace_limit),
      lanes_(std::make_unique<Lanes>()) {}
Communicator::~Communicator() = default;

void gather_numbers(Communicator& comm, const char* collective, const CollectiveOptions& options,
                    const void* own, void* all, std::int64_t bytes) {
  const auto at = [all, bytes](int rank) { return static_cast<char*>(all) + rank * bytes; };
  std::memcpy(at(comm.rank()), own, static_cast<std::size_t>(bytes));
  CollectiveCall call{collective, options.tag, "numbers",
                      cached_schedule(direct_gather, Shards::even(comm.size(), comm.size()), {.shard = bytes},
                                      {.computes = false})};
  call.deadline = options.deadline;
  call.part.place = [at](const Piece& p) -> void* { return at(p.chunk.owner); };
  comm.execute(std::move(call));
}

void Communicator::barrier(const CollectiveOptions& options) {
  const char own = 0;
  std::vector<char> all(static_cast<std::size_t>(size()));
  gather_numbers(*this, "barrier", options, &own, all.data(), 1);
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const std::int64_t own[] = {color, key};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size()));
  gather_numbers(*this, "split", {}, own, all.data(), sizeof own);
  std::vector<std::pair<std::int64_t, int>> members; // key and rank
  for (int r = 0; r < size(); ++r)
    if (all[2 * static_cast<std::size_t>(r)] == color)
      members.emplace_back(all[2 * static_cast<std::size_t>(r) + 1], r);
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  for (const auto& member : members)
    ranks.push_back(member.second);
  return subset(ranks, (++splits_ << 32) + static_cast<std::uint32_t>(color));
}

std::unique_ptr<SymmetricMemory> Communicator::symmetric_memory(std::int64_t bytes) {
  if (bytes < 0)
    throw UserError("Communicator::symmetric_memory: the number of bytes is negative; pass at least 0");
  return std::unique_ptr<SymmetricMemory>(new SymmetricMemory(*this, bytes));
}

void Communicator::check_replicas(At stream, const Input& x_, const std::string& tag) {
  const ops::detail::Checks check("Communicator::check_replicas", stream);
  const ops::Array& x = x_.array();
  check_contiguous(check, {"x", x});
  const std::int64_t bytes = x.size() * size_of(x.dtype);
  std::vector<unsigned char> host(static_cast<std::size_t>(bytes));
  copy(stream.stream, host.data(), x.data, bytes);
  stream.stream.synchronize();
  std::uint64_t hash = 14695981039346656037u; // FNV-1a (Fowler, Noll and Vo), on words of eight bytes
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 1099511628211u, hash ^= hash >> 29; };
  for (std::size_t i = 0; i < host.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, host.data() + i, std::min<std::size_t>(8, host.size() - i));
    add(word);
  }
  add(static_cast<std::uint64_t>(bytes));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size()));
  const Nanoseconds began = now();
  gather_numbers(*this, "check_replicas", {.tag = tag}, &hash, all.data(), sizeof hash);
  std::string ranks;
  int failed = -1, count = 0;
  for (int r = 1; r < size(); ++r)
    if (all[static_cast<std::size_t>(r)] != all[0]) {
      failed = rank_in_run(r), ++count;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(failed);
    }
  if (count > 0)
    throw CommError({"check_replicas", tag}, count == 1 ? failed : -1, now() - began,
                    "the contents differ from those of rank " + std::to_string(rank_in_run(0)) + " on rank " +
                        ranks);
}

Nanoseconds Communicator::estimate(CollectiveKind kind, std::int64_t bytes, Algorithm algorithm) const {
  return collectives::estimate(engine().link, size(), kind, bytes, algorithm);
}

std::int64_t Communicator::workspace_bytes(CollectiveKind kind, std::int64_t bytes) const {
  const std::int64_t others = size() - 1;
  switch (kind) {
  case CollectiveKind::all_reduce:
    if (prefers_one_shot(bytes)) return std::min(workspace_limit(), bytes * others);
    [[fallthrough]];
  case CollectiveKind::reduce_scatter:
    return std::min(workspace_limit(), (bytes + size() - 1) / size() * others);
  case CollectiveKind::reduce: return std::min(workspace_limit(), bytes * others);
  default: return 0;
  }
}

} // namespace kiln::collectives
