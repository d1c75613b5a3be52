// A warp: 32 lanes, their frames of registers, and the fragments they split into.
#pragma once

#include "divergence.h"
#include "unwritten.h"

#include <memory>
#include <optional>
#include <vector>

namespace kiln::emulator {

class Block;
class Execution;

// A register that wgmma uses, by number of wgmma.fence executed by the warp before its last uses.
struct RegisterWatch {
  std::uint32_t touched = 0;                   // by other instructions
  std::uint32_t multiplied = 0, shape = 0;     // by wgmma, and the shape of that
  std::uint16_t accumulating = 0, feeding = 0; // wgmma under way that add to it, or read A from it
  std::int32_t line = 0;                       // that touched it
};

// The registers and local variables of one activation of a function.
struct Frame {
  const Function* function = nullptr;
  Frame* caller = nullptr;
  std::uint32_t return_to = 0; // in the caller
  int depth = 0;
  Mask lanes = 0; // not returned yet
  std::uint64_t local_base = 0;
  std::unique_ptr<std::array<std::uint64_t, warp_size>> stack; // where each lane's free local memory starts
  std::uint8_t* registers = nullptr;
  std::vector<std::uint8_t> params;       // .param variables, 32 lanes after each other
  std::vector<std::uint8_t> param_shadow; // as Region::shadow; empty: all were written
  std::unique_ptr<std::uint8_t[]> storage;
  std::unique_ptr<Unwritten> unwritten; // while any register is marked
  Mask carry = 0;                       // CC.CF
  std::vector<RegisterWatch> watches;   // of each 64 bytes of registers, in functions with wgmma
  int in_flight = 0;                    // wgmma under way with these registers
  RegisterWatch& watch(std::uint32_t reg) { return watches[reg / 64]; }
};

inline constexpr int cluster_barrier = 16;  // behind the block's
inline constexpr int register_barrier = 17; // waits for registers (setmaxnreg)
inline constexpr int wgmma_barrier = 18;    // waits for the warpgroup's multiplications (wgmma.wait_group)

struct Fragment {
  enum class State : std::uint8_t { Ready, AtCollective, AtBarrier };
  Frame* frame = nullptr;
  std::uint32_t at = 0;
  Mask lanes = 0;
  State state = State::Ready;
  Mask active = 0;  // of the lanes, those whose guard holds, where it waits
  Mask members = 0; // that a collective waits for
  int barrier = -1;
};

// Who takes part in a warp-wide operation, by which instruction.
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

  // Runs up to `quantum` instructions; fewer if all lanes wait or are done.
  void run(std::uint64_t quantum);
  bool done() const { return alive_ == 0; }
  bool ready() const { return ready_; }
  Mask alive() const { return alive_; }
  void kill(); // after a fault that nothing can follow

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
  std::uint32_t tid[3][warp_size] = {}; // x, y, z of each lane

  // Local memory: 32 bytes of each lane after each other, so that it can grow.
  std::uint8_t* local(int lane, std::uint64_t offset) {
    return local_.data() + (offset / 32 * warp_size + static_cast<std::uint64_t>(lane)) * 32 + offset % 32;
  }
  // alloca: where a lane's free local memory starts; takes some, if there is as much; gives back what was
  // taken since `to` was the start.
  std::uint64_t stack(int lane) const;
  std::optional<std::uint64_t> take_stack(int lane, std::uint64_t bytes, std::uint64_t align);
  bool restore_stack(int lane, std::uint64_t to);
  std::uint64_t local_bytes() const { return local_.size() / warp_size; }
  std::vector<std::uint8_t>& local_shadow() { return local_shadow_; }
  Origins local_origins; // by offset in local_data()
  std::uint8_t* local_data() { return local_.data(); }

  // A fragment's barrier opened: it goes on behind it.
  void release(Fragment& f);
  void yield() { yielded_ = interrupted_ = true; }
  void note_marks() { interrupted_ = true; } // its frame has marks (unwritten.h)
  bool yielded() const { return yielded_; }  // in its last turn
  bool returns_to_same_state();              // it comes back to the state it was in: runs it for a while
  struct FailedTest {
    const Instruction* instruction = nullptr; // null if the last one passed
    const std::uint8_t* mbarrier = nullptr;
    int lane = 0;
  };
  const FailedTest& failed_test() const { return failed_test_; }
  void set_failed_test(FailedTest t) { failed_test_ = t; }
  void exit_lanes(Mask lanes);

  std::uint32_t copy_group[warp_size] = {};  // of cp.async: the number of the open group of each lane
  std::uint32_t bulk_group[warp_size] = {};  // the same of cp.async.bulk
  std::uint32_t wgmma_group[warp_size] = {}; // and of wgmma
  std::uint32_t wgmma_fences = 0;            // executed so far
  std::uint32_t registers_per_thread = 0;
  std::uint32_t cluster_phase[warp_size] = {}; // in which a lane arrived at the cluster's barrier
  Mask at_cluster = 0;                         // lanes that have arrived there in the phase that goes on
  Mask before_wait = 0;                        // lanes that have arrived there and not waited since
  int arrived_line = 0;                        // where the last of them did

private:
  bool select();
  std::uint64_t execute(Fragment& f, std::uint64_t budget, std::uint32_t stop);
  bool complete_collective(Fragment& f); // at a collective: true if it went through
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
  void add_ready(const Fragment& f); // add, joining one at the same place
  void diverge(Mask some, Mask others, const Instruction& at);
  void check_all_here(const Instruction& barrier, Mask lanes); // of an .aligned barrier

  std::uint8_t* registers_ = nullptr;
  Frame* frame_ = nullptr;
  Mask all_, alive_; // at first, and now
  bool ready_ = true, yielded_ = false, interrupted_ = false;
  FailedTest failed_test_;
  std::vector<Fragment> fragments_;
  Divergence divergence_;
  bool diverged_ = false;    // others were elsewhere when this turn of a fragment began
  std::uint64_t events_ = 0; // of the execution, then or when its lanes parted
  std::size_t current_ = 0;
  std::uint64_t slice_used_ = 0; // instructions since the current fragment was chosen while others were ready
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::uint8_t> local_, local_shadow_;
};

} // namespace kiln::emulator
