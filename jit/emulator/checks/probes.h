// Combines several probes into one, which forwards each call to all of them in their order.
#pragma once

#include <kiln/jit/emulator/core/probe.h>

#include <vector>

namespace kiln::emulator {

class Probes : public Probe {
public:
  explicit Probes(std::vector<Probe*> all) : all_(std::move(all)) {}

  void launch_finished(const Execution& e) override { forward(&Probe::launch_finished, e); }
  void block_started(Block& b) override { forward(&Probe::block_started, b); }
  void block_finished(Block& b) override { forward(&Probe::block_finished, b); }
  void access(const Access& a) override { forward(&Probe::access, a); }
  void lanes_exited(Warp& w, Mask m) override { forward(&Probe::lanes_exited, w, m); }
  void warp_synchronised(Warp& w, Mask m) override { forward(&Probe::warp_synchronised, w, m); }
  void barrier_arrived(Warp& w, const Instruction& i, int n, Mask m) override {
    forward(&Probe::barrier_arrived, w, i, n, m);
  }
  void barrier_opened(Block& b, int n) override { forward(&Probe::barrier_opened, b, n); }
  void fence(Warp& w, const Instruction& i, const Fence& f, Mask m) override {
    forward(&Probe::fence, w, i, f, m);
  }
  void cluster_arrived(Warp& w, const Instruction& i, Mask m, bool relaxed) override {
    forward(&Probe::cluster_arrived, w, i, m, relaxed);
  }
  void cluster_opened(Block& b) override { forward(&Probe::cluster_opened, b); }
  void cluster_waited(Warp& w, const Instruction& i, Mask m) override {
    forward(&Probe::cluster_waited, w, i, m);
  }
  void mbarrier(Warp& w, const Instruction& i, const MbarrierEvent& e) override {
    forward(&Probe::mbarrier, w, i, e);
  }
  void mbarrier_phase_ended(std::uint8_t* host) override { forward(&Probe::mbarrier_phase_ended, host); }
  void issued(const AsyncOperation& op) override { forward(&Probe::issued, op); }
  void read(const AsyncOperation& op) override { forward(&Probe::read, op); }
  void landed(const AsyncOperation& op) override { forward(&Probe::landed, op); }
  void counted(const AsyncOperation& op, std::uint8_t* mbarrier, std::uint64_t bytes) override {
    forward(&Probe::counted, op, mbarrier, bytes);
  }
  void waited(Warp& w, const Instruction& i, Mask m, const AsyncOperation& op, bool only_read) override {
    forward(&Probe::waited, w, i, m, op, only_read);
  }

private:
  template <class... P, class... A> void forward(void (Probe::*what)(P...), A&&... a) {
    for (Probe* p : all_)
      (p->*what)(a...);
  }
  std::vector<Probe*> all_;
};

} // namespace kiln::emulator
