// Runs small kernels in PTX text whose output is 32-bit words.
#pragma once

#include <catch2/catch.hpp>
#include <kiln/jit/emulator/emulator.h>

#include <string>
#include <vector>

namespace kiln::test {

// A module with the given body, which can use %out (the parameter) and registers %r, %s (16 bits), %x (64
// bits), %p and %f. %r0 is the thread's index in the block, and %x0 the address of its word of `out`.
inline std::string small_module(const std::string& body, const std::string& before = "") {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + before +
         "\n.visible .entry k(.param .u64 out, .param .u64 in)\n{\n"
         ".reg .b32 %r<64>; .reg .b16 %s<16>; .reg .b64 %x<32>; .reg .pred %p<16>; .reg .f32 %f<32>; .reg "
         ".b64 %out;\n"
         "ld.param.u64 %out, [out]; mov.u32 %r0, %tid.x; mad.wide.u32 %x0, %r0, 4, %out;\n" +
         body + "\nret;\n}\n";
}

struct SmallRun {
  emulator::Report report;
  std::vector<std::uint32_t> out;
};

inline SmallRun run_small(const std::string& body, std::uint32_t threads, emulator::Options options = {},
                          const std::string& before = "", const std::vector<std::uint32_t>& in = {},
                          std::size_t words = 0, std::uint32_t blocks = 1, std::uint64_t shared = 0) {
  options.arch = "sm_90a";
  emulator::Gpu gpu(options);
  auto module = emulator::Module::parse(small_module(body, before), "small.ptx");
  SmallRun r;
  r.out.resize(words ? words : threads);
  std::uint64_t out = gpu.allocate(r.out.size() * 4, "out"), from = gpu.allocate(in.size() * 4, "in");
  gpu.write(out, r.out.data(), r.out.size() * 4);
  gpu.write(from, in.data(), in.size() * 4);
  std::uint64_t arguments[] = {out, from};
  r.report =
      gpu.launch(module, "k", {.grid = {blocks}, .block = {threads}, .shared_bytes = shared}, arguments);
  gpu.read(r.out.data(), out, r.out.size() * 4);
  return r;
}

} // namespace kiln::test
