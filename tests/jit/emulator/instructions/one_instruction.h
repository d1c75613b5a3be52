// Runs one PTX instruction over arrays of operands, one lane for each element.
#pragma once

#include <kiln/jit/emulator/emulator.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kiln::test {

// "mad.lo.s32 %d, %a, %b, %c;" with the types of %d and of the operands: "b16", "b32", "b64" or "pred".
struct OneInstruction {
  std::string text, result;
  std::vector<std::string> operands;
};

inline int bytes_of(const std::string& type) { return type == "b16" ? 2 : type == "b64" ? 8 : 4; }

inline std::string ptx_of(const OneInstruction& i, const std::string& arch = "sm_90a") {
  std::string s = ".version 9.0\n.target " + arch + "\n.address_size 64\n.visible .entry k(.param .u64 out";
  const char* names[] = {"a", "b", "c", "e"};
  for (std::size_t n = 0; n < i.operands.size(); ++n)
    s += std::string(", .param .u64 in_") + names[n];
  s += ", .param .u32 count)\n{\n.reg .b32 %t<8>; .reg .b64 %x<8>; .reg .pred %q<4>;\n";
  auto type = [](const std::string& t) { return t == "pred" ? std::string("b32") : t; };
  s += ".reg ." + i.result + " %d;\n";
  for (std::size_t n = 0; n < i.operands.size(); ++n)
    s += ".reg ." + i.operands[n] + " %" + names[n] + ";\n";
  s += "mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x; mad.lo.u32 %t0, %t0, %t1, %t2;\n";
  s += "ld.param.u32 %t1, [count]; setp.ge.u32 %q0, %t0, %t1; @%q0 bra DONE;\n";
  for (std::size_t n = 0; n < i.operands.size(); ++n) {
    const std::string& t = i.operands[n];
    s += std::string("ld.param.u64 %x0, [in_") + names[n] + "]; mad.wide.u32 %x0, %t0, " +
         std::to_string(bytes_of(t)) + ", %x0;\n";
    if (t == "pred")
      s += std::string("ld.global.b32 %t3, [%x0]; setp.ne.u32 %") + names[n] + ", %t3, 0;\n";
    else
      s += "ld.global." + t + " %" + names[n] + ", [%x0];\n";
  }
  s += i.text + "\nld.param.u64 %x0, [out]; mad.wide.u32 %x0, %t0, " + std::to_string(bytes_of(i.result)) +
       ", %x0;\n";
  s += i.result == "pred" ? "selp.b32 %t3, 1, 0, %d; st.global.b32 [%x0], %t3;\n"
                          : "st.global." + type(i.result) + " [%x0], %d;\n";
  return s + "DONE: ret;\n}\n";
}

// inputs[k][n]: operand k of lane n
inline std::vector<std::uint64_t> run(const OneInstruction& i,
                                      const std::vector<std::vector<std::uint64_t>>& inputs,
                                      const std::string& arch = "sm_90a") {
  static emulator::Gpu hopper({.arch = "sm_90a"});
  std::optional<emulator::Gpu> other;
  if (arch != "sm_90a") other.emplace(emulator::Options{.arch = arch});
  emulator::Gpu& gpu = other ? *other : hopper;
  auto module = emulator::Module::parse(ptx_of(i, arch), "one.ptx");
  const std::size_t n = inputs.empty() ? 32 : inputs[0].size();
  std::vector<std::uint64_t> words;
  auto put = [&](const std::string& type, const std::vector<std::uint64_t>* values) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(bytes_of(type));
    words.push_back(gpu.allocate(bytes * n + 8));
    if (values)
      for (std::size_t k = 0; k < n; ++k)
        gpu.write(words.back() + k * bytes, &(*values)[k], bytes);
  };
  put(i.result, nullptr);
  for (std::size_t k = 0; k < inputs.size(); ++k)
    put(i.operands[k], &inputs[k]);
  auto arguments = words;
  arguments.push_back(n);
  auto report = gpu.launch(
      module, "k", {.grid = {static_cast<std::uint32_t>((n + 127) / 128)}, .block = {128}}, arguments);
  INFO(report.text());
  REQUIRE(report.ok());
  std::vector<std::uint64_t> result(n, 0);
  const std::uint64_t bytes = static_cast<std::uint64_t>(bytes_of(i.result));
  for (std::size_t k = 0; k < n; ++k)
    gpu.read(&result[k], words[0] + k * bytes, bytes);
  for (std::uint64_t w : words)
    gpu.free(w);
  return result;
}

// Random bits of a width, among them many edge values.
inline std::uint64_t random_bits(std::mt19937_64& random, int width, bool floating) {
  const std::uint64_t mask = width == 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << width) - 1;
  if (!floating) {
    const std::uint64_t edges[] = {
        0, 1, 2, 31, 32, 33, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) + 2, 0x80, 0xff, 0x7f};
    switch (random() % 4) {
    case 0: return edges[random() % std::size(edges)] & mask;
    case 1: return random() >> (random() % 64) & mask;
    default: return random() & mask;
    }
  }
  const int mantissa = width == 16 ? 10 : width == 32 ? 23 : 52, exponent = width - 1 - mantissa;
  const std::uint64_t sign = random() % 2 << (width - 1),
                      fraction = random() & ((std::uint64_t(1) << mantissa) - 1);
  const std::uint64_t top = (std::uint64_t(1) << exponent) - 1, bias = top >> 1;
  switch (random() % 10) {
  case 0: return sign;                                     // zero
  case 1: return sign | top << mantissa;                   // infinity
  case 2: return sign | top << mantissa | (fraction | 1);  // NaN
  case 3: return sign | (fraction >> random() % mantissa); // subnormal
  case 4: return sign | (top - 1) << mantissa | fraction;  // largest
  case 5: return sign | (bias + random() % 8) << mantissa; // small powers of two
  case 6:
  case 7: return sign | (bias - 4 + random() % 12) << mantissa | fraction;
  default: return random() & mask;
  }
}

} // namespace kiln::test
