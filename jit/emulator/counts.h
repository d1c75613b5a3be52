// The numbers that counters of an emulated device collect, by kernel and by source line.
//
// The model of memory is that of NVIDIA GPUs since Volta:
//  - A request of global or local memory is one instruction of a warp. A request of global memory costs one
//    sector for each aligned block of 32 bytes that its lanes access; `ideal_sectors` is the number of
//    sectors that their distinct bytes would fill. An access through a generic address counts in the state
//    space that the address is in.
//  - Shared memory has 32 banks of 4 bytes. A request is served in passes of 32 lanes, or of 16 if a lane
//    accesses 8 bytes, or of 8 if it accesses 16. A pass needs one wavefront for each different word in its
//    busiest bank; all wavefronts after the first are its bank conflicts.
//  - Tensor operations are the multiplications and additions of mma, wmma and wgmma of all types; sparse
//    instructions count half of what their shape says.
//  - `most_stages` is the largest number of copy groups that one warp had in flight at once (of single
//    copies, for bulk copies with an mbarrier), and `most_async_bytes` is the largest number of bytes.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/emulator/core/instruction_class.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::emulator {

struct SpaceCounts {
  std::uint64_t requests = 0, read_bytes = 0, written_bytes = 0; // an atomic counts as read and as written
};

struct Counts {
  std::uint64_t warp_instructions = 0, lane_instructions = 0;
  std::array<std::uint64_t, instruction_classes> warps_by_class{}, lanes_by_class{};
  SpaceCounts global, shared, local, constant;
  std::uint64_t sectors = 0, ideal_sectors = 0; // of global memory
  std::uint64_t wavefronts = 0, bank_conflicts = 0;
  std::uint64_t tensor_instructions = 0, tensor_operations = 0;
  std::uint64_t async_copies = 0, async_bytes = 0;
  std::uint64_t most_stages = 0, most_async_bytes = 0; // in flight at once, of one warp

  double sectors_per_request() const; // of global memory; 0 if there were none
  double lanes_per_instruction() const;
  Counts& operator+=(const Counts& other);
};

struct LineCounts {
  std::string place; // "matmul.cpp:12", or "matmul.ptx:340" where no .loc names a source
  Counts counts;
};

struct KernelCounts {
  std::string kernel;
  std::uint64_t launches = 0, blocks = 0;
  Counts all;
  std::vector<LineCounts> lines; // sorted by place
};

std::string text_of(const std::vector<KernelCounts>& kernels);
std::string json_of(const std::vector<KernelCounts>& kernels);

} // namespace kiln::emulator
KILN_API_END
