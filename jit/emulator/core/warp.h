// Defines a warp of 32 lanes, with the frames of its registers and the fragments into which it diverges.
#pragma once

#include "divergence.h"
#include "unwritten.h"

#include <memory>
#include <optional>
#include <vector>

namespace kiln::emulator {

class Block;
class Execution;

// A register that wgmma uses. Its last uses are recorded as the number of wgmma.fence executed before them.
struct RegisterWatch {
  std::uint32_t touched = 0;                   // last use by another instruction
  std::uint32_t multiplied = 0, shape = 0;     // last use by a wgmma, and the shape of that wgmma
  std::uint16_t accumulating = 0, feeding = 0; // number of wgmma under way that add to it, or read A from it
  std::int32_t line = 0;                       // of the instruction of `touched`
};

// The registers and local variables of one activation of a function.
struct Frame {
  const Function* function = nullptr;
  Frame* caller = nullptr;
  std::uint32_t return_to = 0; // position in the caller
  int depth = 0;
  Mask lanes = 0; // lanes that have not returned yet
  std::uint64_t local_base = 0;
  std::unique_ptr<std::array<std::uint64_t, warp_size>> stack; // offset of each lane's free local memory
  std::uint8_t* registers = nullptr;
  std::vector<std::uint8_t> params;       // .param variables, of 32 lanes one after the other
  std::vector<std::uint8_t> param_shadow; // like Region::shadow; empty: all were written
  std::unique_ptr<std::uint8_t[]> storage;
  std::unique_ptr<Unwritten> unwritten; // exists while any register is marked
  Mask carry = 0;                       // the carry flag CC.CF of each lane
  std::vector<RegisterWatch> watches;   // one for each 64 bytes of registers, in functions with wgmma
  int in_flight = 0;                    // number of wgmma under way with these registers
  RegisterWatch& watch(std::uint32_t reg) { return watches[reg / 64]; }
};

// Numbers of barriers after the 16 of the block.
inline constexpr int cluster_barrier = 16;  // the cluster's barrier
inline constexpr int register_barrier = 17; // waits for registers (setmaxnreg)
inline constexpr int wgmma_barrier = 18;    // waits for the warpgroup's wgmma groups (wgmma.wait_group)

struct Fragment {
  enum class State : std::uint8_t { Ready, AtCollective, AtBarrier };
  Frame* frame = nullptr;
  std::uint32_t at = 0;
  Mask lanes = 0;
  State state = State::Ready;
  Mask active = 0;  // where it waits: the lanes whose guard holds
  Mask members = 0; // lanes that a collective waits for; 0: all live lanes
  int barrier = -1;
};

// Lanes that take part in a warp-wide operation by the same instruction.
struct Participant {
  const Instruction* instruction;
  Frame* frame;
  Mask lanes;
  template <class T> T* reg(std::uint32_t offset) const {
    return reinterpret_cast<T*>(frame->registers + offset);
  }
};

class Warp {
public:
  Warp(Execution& execution, Block& block, int index, Mask lanes);

  // Runs up to `quantum` instructions, fewer if all lanes wait or have exited.
  void run(std::uint64_t quantum);
  bool done() const { return alive_ == 0; }
  bool ready() const { return ready_; }
  Mask alive() const { return alive_; }
  void kill(); // ends all lanes after a fatal fault

  template <class T> T* reg(std::uint32_t offset) const {
    return reinterpret_cast<T*>(__builtin_assume_aligned(registers_ + offset, sizeof(T) < 4 ? 4 : 64));
  }
  Mask& pred(std::uint32_t offset) const { return *reinterpret_cast<Mask*>(registers_ + offset); }
  const std::uint32_t* extras(const Instruction& i) const {
    return frame_->function->extras.data() + i.extra;
  }

  Execution& execution;
  Block& block;
  const int index;
  Frame* frame() const { return frame_; }
  Frame& root() const { return *frames_.front(); }
  std::vector<Fragment>& fragments() { return fragments_; }
  std::uint32_t tid[3][warp_size] = {}; // %tid.x, y, z of each lane

  // Local memory alternates between the lanes every 32 bytes, so that it can grow.
  std::uint8_t* local(int lane, std::uint64_t offset) {
    return local_.data() + (offset / 32 * warp_size + static_cast<std::uint64_t>(lane)) * 32 + offset % 32;
  }
  // alloca: the offset of a lane's free local memory; takes some, if enough is left; releases what was taken
  // since the offset was `to`.
  std::uint64_t stack(int lane) const;
  std::optional<std::uint64_t> take_stack(int lane, std::uint64_t bytes, std::uint64_t align);
  bool restore_stack(int lane, std::uint64_t to);
  std::uint64_t local_bytes() const { return local_.size() / warp_size; }
  std::vector<std::uint8_t>& local_shadow() { return local_shadow_; }
  Origins local_origins; // by offset in local_data() / 4
  std::uint8_t* local_data() { return local_.data(); }

  // Lets a fragment continue after its barrier has opened.
  void release(Fragment& f);
  void yield() { yielded_ = interrupted_ = true; }
  void note_marks() { interrupted_ = true; }              // called when its frame has got marks (unwritten.h)
  bool yielded() const { return yielded_; }               // in its last time slice
  void append_state(std::vector<std::uint8_t>& to) const; // all that determines what it does next
  struct FailedTest {
    const Instruction* instruction = nullptr; // null if the last test passed
    const std::uint8_t* mbarrier = nullptr;
    int lane = 0;
  };
  const FailedTest& failed_test() const { return failed_test_; }
  void set_failed_test(FailedTest t) { failed_test_ = t; }
  void exit_lanes(Mask lanes);

  std::uint32_t copy_group[warp_size] = {};  // for cp.async: the number of the open group of each lane
  std::uint32_t bulk_group[warp_size] = {};  // the same for cp.async.bulk
  std::uint32_t wgmma_group[warp_size] = {}; // the same for wgmma
  std::uint32_t wgmma_fences = 0;            // number executed so far
  std::uint32_t registers_per_thread = 0;
  std::uint32_t cluster_phase[warp_size] = {}; // phase in which a lane arrived at the cluster's barrier
  Mask at_cluster = 0;                         // lanes that have arrived there in the current phase
  Mask before_wait = 0;                        // lanes that have arrived there and not waited since then
  int arrived_line = 0;                        // line of the last arrival

private:
  bool select();
  std::uint64_t execute(Fragment& f, std::uint64_t budget, std::uint32_t stop);
  bool complete_collective(Fragment& f); // executes a collective if all members have arrived; true if so
  void call(Fragment& f, const Instruction& i, const Function& callee, Mask lanes);
  void call_indirectly(Fragment& f, const Instruction& i, Mask lanes);
  void grow_local(std::uint64_t bytes);
  void copy_to_stack(const Frame& f, const Function::StackCopy& c, int lane);
  void forget_local(int lane, std::uint64_t offset, std::uint64_t bytes);
  void return_lanes(Fragment& f, Mask lanes);
  void wait_at(Fragment& f, int barrier);
  void store_reduction(const Fragment& f, const Instruction& i) const;
  void arrive(Fragment& f, const Instruction& i, Mask lanes);
  void arrive_at_cluster(Fragment& f, const Instruction& i, Mask lanes);
  void change_registers(Fragment& f, const Instruction& i, Mask lanes);
  void touch_registers(const Fragment& f, const Instruction& i, Mask lanes);
  Frame* push(const Function& function, Frame* caller, std::uint32_t return_to, Mask lanes);
  void collect_frames();
  void add_ready(const Fragment& f); // adds a fragment, or its lanes to one at the same position
  void diverge(Mask some, Mask others, const Instruction& at);
  void check_all_here(const Instruction& barrier, Mask lanes); // checks an .aligned barrier

  std::uint8_t* registers_ = nullptr;
  Frame* frame_ = nullptr;
  Mask all_, alive_; // lanes at the start, and live lanes now
  bool ready_ = true, yielded_ = false, interrupted_ = false;
  FailedTest failed_test_;
  std::vector<Fragment> fragments_;
  Divergence divergence_;
  bool diverged_ = false;    // whether other lanes were elsewhere when the fragment that runs was chosen
  std::uint64_t events_ = 0; // Execution::events at that time or at the last split
  std::size_t current_ = 0;
  std::uint64_t slice_used_ = 0; // instructions since the current fragment was chosen while others were ready
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::uint8_t> local_, local_shadow_;
};

} // namespace kiln::emulator
