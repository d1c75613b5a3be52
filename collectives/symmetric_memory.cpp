// Implements memory into which other ranks put data.
#include <kiln/collectives/symmetric_memory.h>

#include <kiln/collectives/gather_numbers.h>
#include <kiln/dsl/error.h>

#include <algorithm>

namespace kiln::collectives {

SymmetricMemory::SymmetricMemory(Communicator& comm, std::int64_t bytes)
    : comm_(comm), bytes_(bytes), memory_(comm.device(), std::max<std::int64_t>(bytes, 1)),
      arrived_(static_cast<std::size_t>(comm.size())), awaited_(arrived_.size()) {
  struct Addresses {
    void* memory;
    std::uint64_t* arrived;
    std::int64_t bytes;
  } own{memory_.data(), arrived_.data(), bytes};
  std::vector<Addresses> all(arrived_.size());
  gather_numbers(comm, "symmetric_memory", {}, &own, all.data(), sizeof own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].bytes != bytes)
      throw UserError("Communicator::symmetric_memory: rank " + std::to_string(rank) + " passes " +
                      std::to_string(all[rank].bytes) + " bytes, and rank " + std::to_string(comm.rank()) +
                      " passes " + std::to_string(bytes) + " bytes; pass the same number on all ranks");
    addresses_.push_back(all[rank].memory);
    signals_.push_back(all[rank].arrived + comm.rank());
  }
  comm.open_window(local());
  try {
    comm.barrier({.tag = "symmetric_memory"}); // now others may put
  } catch (...) {
    comm.close_window(local());
    throw;
  }
}
SymmetricMemory::~SymmetricMemory() { comm_.close_window(local()); }

void SymmetricMemory::put(int rank, std::int64_t offset, const void* source, std::int64_t bytes,
                          const std::string& tag) {
  if (rank < 0 || rank >= comm_.size())
    throw UserError("SymmetricMemory::put: there is no rank " + std::to_string(rank) +
                    "; pass a rank from 0 to " + std::to_string(comm_.size() - 1));
  if (offset < 0 || bytes < 0 || offset > bytes_ - bytes)
    throw UserError("SymmetricMemory::put: " + std::to_string(bytes) + " bytes at offset " +
                    std::to_string(offset) + " are outside of the " + std::to_string(bytes_) +
                    " bytes of the memory; allocate more, or pass a range within it");
  comm_.put({"put", tag}, rank, peer(rank), signals_[static_cast<std::size_t>(rank)], offset, source, bytes);
}

void SymmetricMemory::wait(int from, Nanoseconds deadline, const std::string& tag) {
  if (from < 0 || from >= comm_.size())
    throw UserError("SymmetricMemory::wait: there is no rank " + std::to_string(from) +
                    "; pass a rank from 0 to " + std::to_string(comm_.size() - 1));
  if (deadline < 0)
    throw UserError(
        "SymmetricMemory::wait: the deadline is negative; pass nanoseconds, or 0 for the default");
  const auto f = static_cast<std::size_t>(from);
  comm_.wait_signal({"wait", tag}, from, &arrived_[f], awaited_[f] + 1, deadline);
  ++awaited_[f];
}

} // namespace kiln::collectives
