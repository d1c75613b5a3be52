// Wraps an emulated GPU with functions that upload and download vectors.
#pragma once

#include <kiln/jit/emulator/emulator.h>

#include <vector>

namespace kiln::test {

struct Machine {
  emulator::Gpu gpu;
  explicit Machine(const emulator::Options& options) : gpu(options) {}
  template <class T> std::uint64_t upload(const std::vector<T>& v, const char* name) {
    const std::uint64_t at = room<T>(v.size(), name);
    gpu.write(at, v.data(), v.size() * sizeof(T));
    return at;
  }
  template <class T> std::uint64_t room(std::size_t n, const char* name) {
    return gpu.allocate(n * sizeof(T), name);
  }
  template <class T> std::vector<T> download(std::uint64_t at, std::size_t n) {
    std::vector<T> v(n);
    gpu.read(v.data(), at, n * sizeof(T));
    return v;
  }
};

} // namespace kiln::test
