// Defines SymmetricMemory, memory of equal size on every rank, into which other ranks put data.
//
//   auto mailbox = comm.symmetric_memory(bytes);            // all ranks call it
//   mailbox->put(right, 0, data, n);                        // copies n bytes to the memory of rank `right`
//   mailbox->wait(left);                                    // until a put from rank `left` has arrived here
//   use(mailbox->local());
//
// Puts are counted separately for each pair of ranks. When wait returns, the data of that put and of all
// earlier puts from that rank is visible. The sender must not overwrite data that the receiver still reads;
// as an acknowledgement, the receiver can put 0 bytes into the sender's memory. Offsets and sizes are in
// bytes. Not thread-safe.
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
  // Releases the memory. A later put into it is a CommError, so call Communicator::barrier before.
  ~SymmetricMemory();

  std::int64_t bytes() const { return bytes_; }
  // This rank's memory, on its device.
  void* local() const { return addresses_[static_cast<std::size_t>(comm_.rank())]; }
  // The address of the memory of a rank, as that rank sees it. If EngineInfo::shared_address_space is true,
  // it is valid on this rank, too, and kernels may read and write it.
  void* peer(int rank) const { return addresses_[static_cast<std::size_t>(rank)]; }

  // Copies bytes to an offset in the memory of a rank, where the put is then counted. Blocks until they have
  // arrived, but does not wait for any stream. `source` is on this rank's device. Throws UserError if the
  // bytes do not fit in the memory, and CommError if the rank has ended or released its memory.
  void put(int rank, std::int64_t offset, const void* source, std::int64_t bytes,
           const std::string& tag = {});
  // Blocks until the next put from rank `from` has arrived: the first one for which this rank has not waited
  // yet. Throws CommError if the deadline (0: RanksOptions::deadline) expires, or if that rank exits before.
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
