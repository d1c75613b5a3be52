// Runs hand-written kernels for sm_90a with all choices of when asynchronous operations land.
//
// Where there is a ptxas it assembles them, to prove that they are valid PTX.
#pragma once

#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/emulator/emulator.h>
#include <kiln/jit/gpu/ptxas.h>

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace kiln::test {

inline std::shared_ptr<const emulator::Module> hopper_module(const std::string& text, bool assembles = true) {
  if (assembles && !gpu::ptxas_path().empty()) {
    const auto result = gpu::assemble(text, "sm_90a");
    INFO(text << "\n" << result.log);
    REQUIRE(result.ok);
  }
  return emulator::Module::parse(text, "hopper.ptx");
}

// The parameters of a kernel, numbers and tensor maps, each at its alignment.
class Parameters {
public:
  template <class T> Parameters& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    size_ = (size_ + alignof(T) - 1) / alignof(T) * alignof(T);
    REQUIRE(size_ + sizeof(T) <= bytes_.size());
    std::memcpy(bytes_.data() + size_, &value, sizeof(T));
    size_ += sizeof(T);
    return *this;
  }
  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

private:
  std::array<std::byte, 1024> bytes_{};
  std::size_t size_ = 0;
};

// Calls `f` for each Asynchrony, the random one with several seeds; under a sanitizer only for one of these,
// chosen at random.
inline void at_all_moments(const std::function<void(const emulator::Options&)>& f, std::uint64_t seeds = 3) {
  using emulator::Asynchrony;
  const std::uint64_t choice = fresh_seed();
  std::uint64_t moment = choice % (2 + seeds);
  for (const Asynchrony a : {Asynchrony::Earliest, Asynchrony::Latest, Asynchrony::Random})
    for (std::uint64_t seed = 0; seed < (a == Asynchrony::Random ? seeds : 1); ++seed) {
      if (sanitized && moment-- != 0) continue;
      emulator::Options o;
      o.arch = "sm_90a";
      o.seed = seed;
      o.asynchrony = a;
      o.checks = emulator::Checks::all();
      INFO("asynchrony " << static_cast<int>(a) << ", seed " << seed << ", chosen by seed " << choice);
      f(o);
    }
}

template <class T>
std::uint64_t on_gpu(emulator::Gpu& gpu, const std::vector<T>& values, std::string name = "") {
  const std::uint64_t at = gpu.allocate(values.size() * sizeof(T), std::move(name));
  gpu.write(at, values.data(), values.size() * sizeof(T));
  return at;
}
template <class T> std::vector<T> from_gpu(const emulator::Gpu& gpu, std::uint64_t at, std::size_t count) {
  std::vector<T> values(count);
  gpu.read(values.data(), at, count * sizeof(T));
  return values;
}

} // namespace kiln::test
