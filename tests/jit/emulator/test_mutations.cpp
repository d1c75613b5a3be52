// Tests that correct kernels are clean under many seeds, and that bugs planted in them are found.
//
// mutations/*.ptx hold the kernels. A line `//! name | faults | old | new` plants a bug: the text `old`,
// which occurs once in the kernel, becomes `new`, and under some seed a finding of one of these faults must
// be reported. `// launch:` says how to run it; `in` holds numbers, as floats where the table below says so.
#include "left_out.h"
#include "test_seed.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/emulator/core/tensor_map.h>
#include <kiln/jit/emulator/emulator.h>
#include <map>
#include <random>
#include <sstream>

using namespace kiln;
using emulator::Fault;
using Words = std::vector<std::uint32_t>;

namespace {

struct Mutation {
  std::string name, from, to;
  std::vector<Fault> expected;
  bool wrong = false; // different results are enough
};
struct Subject {
  std::string file, text, kernel;
  emulator::Launch launch;
  std::size_t in = 0, out = 0;
  int resident = 1;
  bool zero = false; // `out` starts with zeros
  bool maps = false; // has tensor maps of the matrices as parameters, in place of pointers
  std::vector<Mutation> mutations;
};

std::string trimmed(const std::string& s) {
  const auto a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}
std::vector<std::string> split(std::string s, const std::string& by) {
  std::vector<std::string> parts;
  for (std::size_t at; (at = s.find(by)) != std::string::npos; s = s.substr(at + by.size()))
    parts.push_back(s.substr(0, at));
  parts.push_back(s);
  return parts;
}

Fault fault_named(const std::string& name) {
  static const std::map<std::string, Fault> all = {{"RaceShared", Fault::RaceShared},
                                                   {"RaceGlobal", Fault::RaceGlobal},
                                                   {"MissingProxyFence", Fault::MissingProxyFence},
                                                   {"ByteCount", Fault::ByteCount},
                                                   {"Unfinished", Fault::Unfinished},
                                                   {"InFlight", Fault::InFlight},
                                                   {"LiveMbarrier", Fault::LiveMbarrier},
                                                   {"NonCoherent", Fault::NonCoherent},
                                                   {"Deadlock", Fault::Deadlock},
                                                   {"BarrierDivergence", Fault::BarrierDivergence},
                                                   {"IllegalOperand", Fault::IllegalOperand},
                                                   {"Misaligned", Fault::Misaligned},
                                                   {"OutOfBounds", Fault::OutOfBounds},
                                                   {"UseAfterFree", Fault::UseAfterFree},
                                                   {"Uninitialised", Fault::Uninitialised}};
  INFO(name);
  REQUIRE(all.count(name));
  return all.at(name);
}

Subject load(const std::filesystem::path& path) {
  Subject s;
  s.file = path.filename().string();
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("//! ", 0) == 0) {
      const auto parts = split(line.substr(4), " |");
      INFO(line);
      REQUIRE(parts.size() == 4);
      Mutation m{trimmed(parts[0]), trimmed(parts[2]), trimmed(parts[3]), {}};
      for (const auto& f : split(trimmed(parts[1]), ","))
        if (f == "Wrong")
          m.wrong = true;
        else
          m.expected.push_back(fault_named(f));
      s.mutations.push_back(std::move(m));
      s.text += "\n"; // keeps line numbers
      continue;
    }
    s.text += line + "\n";
    if (line.rfind("// launch: ", 0) != 0) continue;
    std::istringstream words(line.substr(11));
    auto extent = [](const std::string& v) {
      const auto n = split(v, ",");
      return emulator::Extent{static_cast<std::uint32_t>(std::stoul(n[0])),
                              n.size() > 1 ? static_cast<std::uint32_t>(std::stoul(n[1])) : 1, 1};
    };
    for (std::string word; words >> word;) {
      const auto pair = split(word, "=");
      const std::string value = pair.size() > 1 ? pair[1] : "";
      if (pair[0] == "kernel") s.kernel = value;
      if (pair[0] == "grid") s.launch.grid = extent(value);
      if (pair[0] == "block") s.launch.block = extent(value);
      if (pair[0] == "in") s.in = std::stoul(value);
      if (pair[0] == "out") s.out = std::stoul(value);
      if (pair[0] == "resident") s.resident = std::stoi(value);
      if (pair[0] == "zero") s.zero = true;
      if (pair[0] == "maps") s.maps = true;
    }
  }
  REQUIRE(!s.kernel.empty());
  return s;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_TESTS_DIR "/jit/emulator/mutations"))
    if (entry.path().extension() == ".ptx") all.push_back(load(entry.path()));
  std::sort(all.begin(), all.end(), [](const Subject& a, const Subject& b) { return a.file < b.file; });
  return all;
}

std::uint32_t bits(float f) {
  std::uint32_t b;
  std::memcpy(&b, &f, 4);
  return b;
}
float number(std::uint32_t b) {
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}

// The expected results for `in`; empty where a word of `out` is not compared.
struct Reference {
  bool floats;
  std::function<Words(const Words&)> out;
};
const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> all = {
      {"matmul",
       {true,
        [](const Words& in) {
          Words out(1024);
          for (std::size_t i = 0; i < 32; ++i)
            for (std::size_t j = 0; j < 32; ++j) {
              float sum = 0;
              for (std::size_t k = 0; k < 32; ++k)
                sum += number(in[32 * i + k]) * number(in[1024 + 32 * k + j]);
              out[32 * i + j] = bits(sum);
            }
          return out;
        }}},
      {"pipeline",
       {true,
        [](const Words& in) {
          Words out(128);
          for (std::size_t t = 0; t < 128; ++t) {
            float sum = 0;
            for (std::size_t n = 0; n < 12; ++n)
              for (std::size_t k = 0; k < 4; ++k)
                sum += number(in[512 * n + 4 * (t ^ 33) + k]);
            out[t] = bits(sum);
          }
          return out;
        }}},
      {"reduce",
       {true,
        [](const Words& in) {
          Words out(9);
          float all = 0;
          for (std::size_t b = 0; b < 8; ++b) {
            float sum = 0;
            for (std::size_t k = 0; k < 256; ++k)
              sum += number(in[256 * b + k]);
            out[b] = bits(sum);
            all += sum;
          }
          out[8] = bits(all);
          return out;
        }}},
      {"scan",
       {false,
        [](const Words& in) {
          Words out;
          std::uint32_t sum = 0;
          for (std::uint32_t v : in)
            out.push_back(sum += v);
          return out;
        }}},
      {"histogram",
       {false,
        [](const Words& in) {
          Words out(32);
          for (std::uint32_t v : in)
            ++out[v & 31];
          return out;
        }}},
      {"chain",
       {false,
        [](const Words& in) {
          Words out;
          for (std::size_t k = 0; k < in.size(); ++k)
            out.push_back(in[k] + (k >= 64 ? out[k - 64] : 0));
          return out;
        }}},
      {"locked",
       {false,
        [](const Words& in) {
          Words out(33);
          for (std::size_t k = 0; k < in.size(); ++k)
            out[k % 32] += in[k];
          return out;
        }}},
      {"named",
       {false,
        [](const Words& in) {
          Words out(64);
          for (std::size_t k = 0; k < in.size(); ++k)
            out[k % 64 ^ 32] += in[k];
          return out;
        }}},
      {"ring",
       {false,
        [](const Words& in) {
          Words out(32);
          for (std::size_t k = 0; k < in.size(); ++k)
            out[k % 32 ^ 1] += in[k];
          return out;
        }}},
      {"bulk",
       {false,
        [](const Words& in) {
          Words out;
          for (std::uint32_t v : in)
            out.push_back(v + 1);
          return out;
        }}},
      {"exchange",
       {false,
        [](const Words& in) {
          Words out;
          for (std::size_t k = 0; k < in.size(); ++k) {
            const std::size_t cluster = k / 128 * 128, rank = k / 32 % 4;
            out.push_back(in[cluster + (rank + 3) % 4 * 32 + k % 32] -
                          in[cluster + (rank + 1) % 4 * 32 + k % 32]);
          }
          return out;
        }}},
      {"handover",
       {false,
        [](const Words& in) {
          Words out;
          for (std::size_t k = 0; k < in.size(); ++k)
            out.push_back(in[k ^ 64]);
          return out;
        }}},
      {"product",
       {false,
        [](const Words& in) {
          auto element = [&](std::size_t n) { return number((in[n / 2] >> (n % 2 * 16) & 0xffff) << 16); };
          Words out(1024);
          for (std::size_t i = 0; i < 64; ++i)
            for (std::size_t j = 0; j < 16; ++j) {
              float sum = 0;
              for (std::size_t k = 0; k < 128; ++k)
                sum += element(128 * i + k) * element(8192 + 16 * k + j);
              out[16 * i + j] = bits(sum);
            }
          return out;
        }}},
      {"turn",
       {false,
        [](const Words& in) {
          auto element = [&](std::size_t matrix, std::size_t row, std::size_t column) {
            const std::size_t n = matrix * 64 + row * 8 + column;
            return in[n / 2] >> (n % 2 * 16) & 0xffff;
          };
          Words out;
          for (std::size_t lane = 0; lane < 32; ++lane)
            for (std::size_t m = 0; m < 4; ++m)
              out.push_back(element(m, lane % 4 * 2, lane / 4) | element(m, lane % 4 * 2 + 1, lane / 4)
                                                                     << 16);
          return out;
        }}},
  };
  return all;
}

struct Outcome {
  emulator::Report report;
  bool right;
};
Outcome run(const Subject& s, const std::shared_ptr<const emulator::Module>& module, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Reference& reference = references().at(s.kernel);
  Words in(s.in), out(s.out);
  for (auto& v : in)
    v = reference.floats ? bits(static_cast<float>(random() % 9) - 4)
                         : static_cast<std::uint32_t>(random() % 1000);
  auto bf16 = [&] { return bits(static_cast<float>(random() % 9) - 4) >> 16; };
  for (std::size_t k = 0; s.maps && k < in.size(); ++k)
    in[k] = bf16() | bf16() << 16;
  emulator::Options options;
  options.arch = "sm_90a";
  options.seed = seed;
  options.checks = emulator::Checks::all();
  options.resident_blocks = s.resident;
  options.asynchrony = static_cast<emulator::Asynchrony>(seed % 3);
  options.instruction_budget = 3'000'000;
  emulator::Gpu gpu(options);
  const std::uint64_t words[] = {gpu.allocate(4 * s.in, "in"), gpu.allocate(4 * s.out, "out")};
  gpu.write(words[0], in.data(), 4 * s.in);
  if (s.zero) gpu.write(words[1], out.data(), 4 * s.out);
  Outcome o{};
  if (s.maps) {
    emulator::TensorMapFields a, b, c;
    a.type = b.type = emulator::TensorMapType::BFloat16;
    c.type = emulator::TensorMapType::Float32;
    a.rank = b.rank = c.rank = 2;
    a.address = words[0], a.sizes = {128, 64}, a.strides = {256}, a.box = {32, 64};
    a.swizzle = emulator::TensorMapSwizzle::Bytes64;
    b.address = words[0] + 16384, b.sizes = {16, 128}, b.strides = {32}, b.box = {16, 32};
    b.swizzle = emulator::TensorMapSwizzle::Bytes32;
    c.address = words[1], c.sizes = {16, 64}, c.strides = {64}, c.box = {16, 64};
    const emulator::TensorMap maps[] = {emulator::encode(a), emulator::encode(b), emulator::encode(c)};
    o.report = gpu.launch_packed(module, s.kernel, s.launch, std::as_bytes(std::span(maps)));
  } else {
    o.report = gpu.launch(module, s.kernel, s.launch, words);
  }
  gpu.read(out.data(), words[1], 4 * s.out);
  const Words expected = reference.out(in);
  o.right = std::equal(expected.begin(), expected.end(), out.begin());
  return o;
}

} // namespace

TEST_CASE("correct kernels are clean and right under many seeds", "[emulator]") {
  const std::uint64_t first = test::fresh_seed();
  CAPTURE(first);
  for (const Subject& s : subjects()) {
    auto module = emulator::Module::parse(s.text, s.file);
    for (std::uint64_t seed = first; seed < first + test::rounds(100u); ++seed) {
      const Outcome o = run(s, module, seed);
      CAPTURE(s.file, seed);
      INFO(o.report.text());
      REQUIRE(o.report.ok());
      REQUIRE(o.right);
    }
  }
}

TEST_CASE("planted bugs are found", "[emulator]") {
  const std::uint64_t first = test::fresh_seed();
  CAPTURE(first);
  // With a sanitizer all of them take ten minutes, so it plants every eighth bug there, others in each run.
  const std::uint64_t step = sanitized ? 8 : 1;
  std::uint64_t number = first % step;
  int planted = 0, at_once = 0;
  for (const Subject& s : subjects())
    for (const Mutation& m : s.mutations) {
      if (number++ % step != 0) continue;
      CAPTURE(s.file, m.name);
      std::string text = s.text;
      const auto at = text.find(m.from);
      REQUIRE(at != std::string::npos);
      REQUIRE(text.find(m.from, at + 1) == std::string::npos);
      text.replace(at, m.from.size(), m.to);
      auto module = emulator::Module::parse(text, s.file);
      bool found = false;
      std::string text_of_report;
      for (std::uint64_t seed = first; seed < first + 60 && !found; ++seed) {
        const Outcome o = run(s, module, seed);
        text_of_report = o.report.text();
        found =
            std::any_of(o.report.findings.begin(), o.report.findings.end(), [&](const emulator::Finding& f) {
              return std::find(m.expected.begin(), m.expected.end(), f.fault) != m.expected.end();
            });
        found |= m.wrong && !o.right;
        at_once += found && seed == first;
      }
      INFO(text_of_report);
      CHECK(found);
      ++planted;
    }
  CHECK(planted >= 40 / static_cast<int>(step));
  CAPTURE(planted);
  // Most are found with any seed, because a race need not happen to be found. A few depend on the seed.
  if (!sanitized) CHECK(at_once * 10 >= planted * 8);
}
