// Defines Counters, which counts instructions, memory requests and tensor operations by kernel and source
// line.
//
//   emulator::Counters counters;
//   gpu.attach(&counters);
//   gpu.launch(...);
//   std::puts(counters.text().c_str());
//
// The numbers and what they mean: counts.h.
// Not thread-safe: use a Counters object from one thread at a time.
#pragma once

#include <kiln/jit/emulator/core/probe.h>
#include <kiln/jit/emulator/counts.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kiln::emulator {

class Counters : public Probe {
public:
  Counters();
  ~Counters() override;
  std::vector<KernelCounts> kernels() const; // in the order of their first launches
  std::string text() const;                  // as tables
  std::string json() const;
  void clear();

  void launch_finished(const Execution& execution) override;
  void block_started(Block& block) override;
  void access(const Access& access) override;
  void issued(const AsyncOperation& operation) override;
  void landed(const AsyncOperation& operation) override;

private:
  struct Memory; // counts by instruction of the current launch
  struct Line {
    std::string file;
    int number;
    auto operator<=>(const Line&) const = default;
  };
  struct Kernel {
    std::string name;
    std::uint64_t launches = 0, blocks = 0;
    std::map<Line, Counts> lines;
  };
  Counts& of(const Instruction& i);

  std::vector<Kernel> kernels_;
  std::unique_ptr<Memory> memory_;
};

} // namespace kiln::emulator
