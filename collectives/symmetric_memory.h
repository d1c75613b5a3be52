// Defines SymmetricMemory, memory that every rank has, and into which other ranks put data.
//
//   auto mailbox = comm.symmetric_memory(bytes);            // all ranks call it
//   mailbox->put(right, 0, data, n);                        // copies n bytes to the memory of rank `right`
//   mailbox->wait(left);                                    // until a put of rank `left` has arrived here
//   use(mailbox->local());
//
// Puts are counted separately for each pair of ranks. When wait returns, the data of that put and of all
// earlier puts from that rank is visible. The sender must not overwrite data that the receiver still reads;
// the receiver can send a put of 0 bytes back as an acknowledgement. Not thread-safe.
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/buffer.h>

#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

class SymmetricMemory {
public:
  ~SymmetricMemory(); // a put that comes later is an error, so call barrier() before

  std::int64_t bytes() const { return bytes_; }
  void* local() const { return addresses_[static_cast<std::size_t>(comm_.rank())]; }
  // The address of the memory of a rank, as that rank sees it. If the engine's shared_address_space is set,
  // it is valid here too, and kernels may read and write it.
  void* peer(int rank) const { return addresses_[static_cast<std::size_t>(rank)]; }

  // Copies bytes to an offset in the memory of a rank, and returns when they have arrived, after which the
  // rank's count for this rank is increased. `source` is on this rank's device. Throws UserError if the range
  // is outside of the memory.
  void put(int rank, std::int64_t offset, const void* source, std::int64_t bytes,
           const std::string& tag = {});
  // Blocks until one more put of rank `from` has arrived than this rank has waited for. Throws CommError if
  // the deadline (0: the default of run_ranks) expires, or if that rank exits before.
  void wait(int from, Nanoseconds deadline = 0, const std::string& tag = {});

private:
  friend class Communicator;
  SymmetricMemory(Communicator& comm, std::int64_t bytes);

  Communicator& comm_;
  const std::int64_t bytes_;
  Buffer memory_;
  std::vector<std::uint64_t> arrived_;  // puts of each rank into this memory
  std::vector<std::uint64_t> awaited_;  // of them, those that this rank has waited for
  std::vector<void*> addresses_;        // of the memory of each rank
  std::vector<std::uint64_t*> signals_; // of each rank: where it counts the puts of this rank
};

} // namespace kiln::collectives
KILN_API_END
