// Tests programs that nvcc compiles, where it is installed: their results equal those of the host.
#include "machine.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/emulator/emulator.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

using namespace kiln;

namespace {

std::string nvcc() {
  for (const char* path : {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

std::string contents(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The PTX of programs.cu for an architecture, after which options may follow. nvcc takes seconds for it, so
// the PTX is kept next to the folder KILN_CACHE_DIR, if that is set, for the other tests, which are processes
// of their own.
std::string ptx_of_programs(const std::string& arch) {
  namespace fs = std::filesystem;
  const fs::path source = KILN_TESTS_DIR "/jit/emulator/cuda/programs.cu";
  const std::string command = nvcc() + " -ptx -lineinfo -std=c++17 -w -arch=" + arch + " " + source.string();
  const char* cache = std::getenv("KILN_CACHE_DIR");
  const fs::path folder = cache ? fs::path(cache + std::string("-nvcc")) : fs::temp_directory_path();
  const auto changed = fs::last_write_time(nvcc()).time_since_epoch().count();
  const std::size_t key = std::hash<std::string>()(command + std::to_string(changed) + contents(source));
  const fs::path kept = folder / ("nvcc-programs-" + std::to_string(key) + ".ptx");
  if (cache && fs::exists(kept)) return contents(kept);

  fs::create_directories(folder);
  const fs::path made = kept.string() + "." + std::to_string(std::random_device()());
  const int status = std::system((command + " -o " + made.string()).c_str());
  const std::string text = contents(made);
  if (cache && status == 0)
    fs::rename(made, kept); // at once, because tests run at the same time
  else
    fs::remove(made);
  REQUIRE(status == 0);
  return text;
}

// The PTX of programs.cu, or null without nvcc.
std::shared_ptr<const emulator::Module> programs(const std::string& arch) {
  static std::map<std::string, std::shared_ptr<const emulator::Module>> all;
  auto& module = all[arch];
  if (!module && !nvcc().empty()) module = emulator::Module::parse(ptx_of_programs(arch), "programs.ptx");
  return module;
}

struct Machine : test::Machine {
  std::shared_ptr<const emulator::Module> module;
  bool optimised;
  Machine(const std::string& arch, std::uint64_t seed)
      : test::Machine([&] {
          emulator::Options o;
          o.arch = arch.substr(0, arch.find(' '));
          o.seed = seed;
          o.checks = emulator::Checks::all();
          return o;
        }()),
        module(programs(arch)), optimised(arch.find("-G") == std::string::npos) {}
  void run(const char* kernel, std::uint32_t blocks, std::uint32_t threads, std::vector<std::uint64_t> words,
           std::uint64_t shared = 0) {
    auto report =
        gpu.launch(module, kernel, {.grid = {blocks}, .block = {threads}, .shared_bytes = shared}, words);
    INFO(report.text());
    REQUIRE(report.ok());
  }
};

template <class F> void on_each(F f) {
  if (nvcc().empty()) {
    WARN("skipped: there is no nvcc");
    return;
  }
  std::uint64_t seed = test::fresh_seed();
  for (const char* arch : {"sm_80", "sm_90a", "sm_80 -G"}) {
    CAPTURE(seed, arch);
    std::mt19937_64 random(seed);
    Machine machine(arch, seed);
    f(machine, random);
  }
}

} // namespace

TEST_CASE("nvcc: reductions, groups, sorting, histograms", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    const int n = 5000 + static_cast<int>(random() % 1000);
    std::vector<float> x(static_cast<std::size_t>(n));
    double expected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(random() % 64);
      expected += x[i] * static_cast<double>(i % 4 + 1);
    }
    auto dx = m.upload(x, "x"), partial = m.room<float>(7, "partial"), total = m.room<float>(1, "total");
    m.run("reduce", 7, 256, {dx, static_cast<std::uint64_t>(n), partial, total});
    CHECK(m.download<float>(total, 1)[0] == static_cast<float>(expected));

    std::vector<int> y(256);
    for (int& v : y)
      v = static_cast<int>(random() % 1000);
    auto dy = m.upload(y, "y"), sums = m.room<int>(256, "sums"), ranks = m.room<int>(256, "ranks");
    m.run("groups", 2, 128, {dy, sums, ranks});
    auto s = m.download<int>(sums, 256), r = m.download<int>(ranks, 256);
    for (std::size_t i = 0; i < 256; ++i) {
      int sum = y[i ^ 3];
      for (std::size_t k = i / 8 * 8; k < i / 8 * 8 + 8; ++k)
        sum += y[k];
      CHECK(s[i] == sum);
      int rank = 0, size = 0;
      for (std::size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) {
        size += y[k] & 1;
        rank += k < i && (y[k] & 1);
      }
      CHECK(r[i] == (y[i] & 1 ? rank * 100 + size : -1));
    }

    std::vector<std::uint32_t> z(768);
    for (auto& v : z)
      v = static_cast<std::uint32_t>(random());
    auto dz = m.upload(z, "z");
    m.run("sort", 3, 256, {dz}, 1024);
    for (std::ptrdiff_t b = 0; b < 3; ++b)
      std::sort(z.begin() + b * 256, z.begin() + b * 256 + 256);
    CHECK(m.download<std::uint32_t>(dz, 768) == z);

    std::vector<unsigned char> bytes(10000);
    std::vector<unsigned> bins(256, 0), counted(256, 0);
    for (auto& b : bytes) {
      b = static_cast<unsigned char>(random() % 200);
      ++counted[b];
    }
    auto db = m.upload(bytes, "bytes"), dc = m.upload(bins, "bins");
    m.run("histogram", 4, 192, {db, bytes.size(), dc});
    CHECK(m.download<unsigned>(dc, 256) == counted);
  });
}

TEST_CASE("nvcc: tensor cores and asynchronous copies", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    std::vector<std::uint16_t> a(4096), b(4096);
    std::vector<int> ia(4096), ib(4096);
    auto half = [](int v) {
      return static_cast<std::uint16_t>(v == 0 ? 0
                                               : (v < 0 ? 0x8000 : 0) | (0x3c00 + ((std::abs(v) - 1) << 10)));
    };
    for (std::size_t i = 0; i < 4096; ++i) {
      a[i] = half(ia[i] = static_cast<int>(random() % 5) - 2);
      b[i] = half(ib[i] = static_cast<int>(random() % 5) - 2);
    }
    auto da = m.upload(a, "a"), db = m.upload(b, "b"), dc = m.room<float>(4096, "c");
    m.run("wmma_matmul", 1, 512, {da, db, dc});
    auto c = m.download<float>(dc, 4096);
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; j < 64; ++j) {
        int sum = 0;
        for (std::size_t k = 0; k < 64; ++k)
          sum += ia[i * 64 + k] * ib[j * 64 + k];
        REQUIRE(c[i * 64 + j] == static_cast<float>(2 * sum + 1));
      }
    std::vector<float> x(5 * 512);
    for (auto& v : x)
      v = static_cast<float>(random() % 10000);
    auto dx = m.upload(x, "x"), dy = m.room<float>(x.size(), "y");
    m.run("pipelined", 1, 128, {dx, dy, 5});
    auto y = m.download<float>(dy, x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(y[i] == x[i] + 1);
    if (!m.optimised) return; // with -G, the kernel calls through registers
    auto dz = m.room<float>(640, "z");
    m.run("library_pipeline", 1, 128, {dx, dz, 5});
    auto z = m.download<float>(dz, 640);
    for (std::size_t i = 0; i < z.size(); ++i)
      REQUIRE(z[i] == x[i / 128 * 128 + 127 - i % 128] + 1);
    m.run("library_barrier", 1, 128, {dx, dz});
    z = m.download<float>(dz, 128);
    for (std::size_t i = 0; i < z.size(); ++i)
      REQUIRE(z[i] == x[127 - i]);
  });
}

TEST_CASE("nvcc: mathematical functions and wide integers", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    std::vector<float> x(100);
    for (auto& v : x)
      v = static_cast<float>(static_cast<double>(random() % 20001) / 2500 - 4);
    auto dx = m.upload(x, "x"), dy = m.room<double>(1200, "y");
    m.run("mathematics", 1, 128, {dx, dy, 100});
    auto y = m.download<double>(dy, 1200);
    for (std::size_t i = 0; i < 100; ++i) {
      const float v = x[i];
      const double d = v;
      auto rounded = [&](int drop) { // to nearest even
        const std::uint32_t u = std::bit_cast<std::uint32_t>(v);
        return static_cast<double>(
            std::bit_cast<float>((u + (1u << (drop - 1)) - 1 + (u >> drop & 1)) >> drop << drop));
      };
      const double expected[] = {std::sin(static_cast<double>(v * 1000)),
                                 std::exp(d),
                                 std::log(static_cast<double>(std::fabs(v) + 1e-3f)),
                                 std::pow(std::fabs(d), static_cast<double>(1.7f)),
                                 d / static_cast<double>(3.1f),
                                 std::sqrt(std::fabs(d)),
                                 std::exp(d),
                                 1 + d * (0.5 + d * (0.25 + d * (0.125 + d * d))),
                                 std::fabs(v) < 1e-4 ? y[i * 12 + 8] : rounded(13) + rounded(16),
                                 std::cos(d * 1e5),
                                 std::fmod(d * 1e3, 7.0),
                                 std::tanh(d) + std::erf(d) + std::lgamma(std::fabs(d) + 1) + std::cbrt(d)};
      const double tolerance[] = {4e-7,  4e-7,  1e-6, 1e-6,  2e-7,  1e-15,
                                  1e-14, 1e-14, 1e-6, 1e-10, 1e-12, 4e-6};
      for (std::size_t k = 0; k < 12; ++k) {
        CAPTURE(v, k);
        CHECK(std::fabs(y[i * 12 + k] - expected[k]) <= tolerance[k] * std::max(1.0, std::fabs(expected[k])));
      }
    }
    std::vector<std::int64_t> a(64), b(64);
    for (std::size_t i = 0; i < 64; ++i) {
      a[i] = static_cast<std::int64_t>(random()) >> random() % 60;
      b[i] = i % 9 == 0 ? 0 : static_cast<std::int64_t>(random()) >> random() % 60;
    }
    auto da = m.upload(a, "a"), db = m.upload(b, "b"), out = m.room<std::int64_t>(512, "out");
    m.run("integers", 1, 64, {da, db, out});
    auto r = m.download<std::int64_t>(out, 512);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::int64_t p = a[i], q = b[i];
      const auto u = static_cast<std::uint64_t>(p);
      CAPTURE(p, q);
      const std::int64_t* to = &r[i * 8];
      CHECK(to[0] == (q ? p / q : 0));
      CHECK(to[1] == (q ? p % q : 0));
      __extension__ typedef __int128 Wide;
      CHECK(to[2] == static_cast<std::int64_t>(Wide(p) * q >> 64));
      CHECK(to[3] ==
            std::popcount(u) * 10000 + std::countl_zero(u) * 100 + (u ? std::countr_zero(u) + 1 : 0));
      std::uint64_t reversed = 0;
      for (int k = 0; k < 64; ++k)
        reversed |= (u >> k & 1) << (63 - k);
      CHECK(static_cast<std::uint64_t>(to[4]) == reversed);
      const auto p32 = static_cast<std::int32_t>(p),
                 q32 = static_cast<std::int32_t>(static_cast<std::int32_t>(q) | 1);
      CHECK(to[5] ==
            (q32 == -1 ? static_cast<std::int32_t>(0 - static_cast<std::uint32_t>(p32)) : p32 / q32));
      const auto uq = static_cast<std::uint64_t>(q);
      const std::uint64_t expected[] = {uq + 1,  uq * 3, uq ^ u, u - uq, static_cast<std::uint64_t>(p >> 3),
                                        uq << 2, ~uq,    u & uq};
      CHECK(static_cast<std::uint64_t>(to[7]) == expected[p & 7]);
    }
  });
}

TEST_CASE("nvcc: integers of 128 bits", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    __extension__ typedef __int128 Wide;
    __extension__ typedef unsigned __int128 WideUnsigned;
    std::vector<WideUnsigned> a(128), b(128);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto any = [&] { return (WideUnsigned(random()) << 64 | random()) >> random() % 128; };
      a[i] = i % 7 ? any() : ~any();
      b[i] = i % 5 ? any() | 1 : ~any() | 1;
    }
    b[0] = 2, a[1] = b[1];
    auto da = m.upload(a, "a"), db = m.upload(b, "b"), out = m.room<WideUnsigned>(128 * 6, "out");
    m.run("wide", 1, 128, {da, db, out});
    auto r = m.download<WideUnsigned>(out, 128 * 6);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const WideUnsigned p = a[i], q = b[i];
      const auto s = static_cast<Wide>(p), t = static_cast<Wide>(q);
      const WideUnsigned expected[] = {
          p / q, p % q, static_cast<WideUnsigned>(s / t), static_cast<WideUnsigned>(s % t), p * q, p - q};
      CAPTURE(i, static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(p >> 64),
              static_cast<std::uint64_t>(q), static_cast<std::uint64_t>(q >> 64));
      for (std::size_t k = 0; k < 6; ++k)
        REQUIRE((r[i * 6 + k] == expected[k]));
    }
  });
}

TEST_CASE("nvcc: printf, assert, and a source line for each fault", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64&) {
    std::vector<std::uint64_t> n = {100}, two = {2};
    auto r = m.gpu.launch(m.module, "says", {.block = {3}}, n);
    CHECK(r.ok());
    CHECK(r.printed == "thread 0 of 3: 0.000 a 123456789abc%\nthread 1 of 3: 0.500 b 123456789abc%\nthread 2 "
                       "of 3: 1.000 c 123456789abc%\n");
    r = m.gpu.launch(m.module, "says", {.block = {3}}, two);
    REQUIRE(r.findings.size() == 1);
    CHECK(r.findings[0].fault == emulator::Fault::Assertion);
    CHECK(r.findings[0].message.find("'threadIdx.x + 1 < n' failed at") != std::string::npos);
    CHECK(r.findings[0].thread[0] == 1);
    std::vector<std::uint64_t> x = {m.room<float>(32, "x")};
    r = m.gpu.launch(m.module, "races", {.block = {32}}, x);
    REQUIRE(r.findings.size() == 1);
    CHECK(r.findings[0].fault == emulator::Fault::OutOfBounds);
    CHECK(r.findings[0].thread[0] == 31);
    CHECK(r.findings[0].source.find("programs.cu:") != std::string::npos);
  });
}

TEST_CASE("nvcc: grids that synchronise as a whole", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    std::vector<int> values(7 * 40);
    for (int& v : values)
      v = static_cast<int>(random() % 100);
    auto dv = m.upload(values, "values");
    m.run("grid_rounds", 7, 40, {dv, 3});
    for (int r = 0; r < 3; ++r) {
      const auto before = values;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] += before[(i / 40 + 1) % 7 * 40 + i % 40];
    }
    CHECK(m.download<int>(dv, values.size()) == values);
    auto r =
        m.gpu.launch(m.module, "grid_race", {.grid = {7}, .block = {40}}, std::vector<std::uint64_t>{dv});
    REQUIRE_FALSE(r.ok());
    CHECK(r.findings[0].fault == emulator::Fault::RaceGlobal);
    CHECK_THROWS_WITH(
        m.gpu.launch(m.module, "grid_race", {.grid = {5000}, .block = {64}}, std::vector<std::uint64_t>{dv}),
        Catch::Contains(
            "which synchronises as a whole (%envreg1, %envreg2); 270336 threads can be resident together"));
  });
}

TEST_CASE("nvcc: virtual functions, function pointers, alloca", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    std::vector<float> x(96);
    std::vector<int> sizes(64);
    for (float& v : x)
      v = static_cast<float>(random() % 100);
    for (int& n : sizes)
      n = static_cast<int>(random() % 60) + 1;
    auto dx = m.upload(x, "x"), dy = m.room<float>(96, "y");
    m.run("virtual_calls", 1, 96, {dx, dy});
    auto y = m.download<float>(dy, 96);
    for (std::size_t t = 0; t < 96; ++t)
      CHECK(y[t] == (t % 3 ? 2 * x[t] * x[t] : 3 * x[t]) + (t & 1 ? x[t] + 1 : x[t] / 2));
    auto ds = m.upload(sizes, "sizes"), out = m.room<int>(64, "out");
    m.run("stack_of", 1, 64, {ds, out});
    auto sums = m.download<int>(out, 64);
    for (std::size_t t = 0; t < 64; ++t) {
      int expected = 0;
      for (int i = sizes[t] - 1; i >= 0; i -= 2)
        expected += i * i;
      CHECK(sums[t] == expected);
    }
  });
}

TEST_CASE("nvcc: intrinsics on the halves and bytes of a word", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    std::vector<std::uint32_t> a(64), b(64);
    for (std::size_t i = 0; i < 64; ++i)
      a[i] = static_cast<std::uint32_t>(random()), b[i] = i % 5 ? static_cast<std::uint32_t>(random()) : a[i];
    auto da = m.upload(a, "a"), db = m.upload(b, "b"), out = m.room<std::uint32_t>(512, "out");
    m.run("words", 1, 64, {da, db, out});
    auto r = m.download<std::uint32_t>(out, 512);
    for (std::size_t i = 0; i < 64; ++i) {
      auto part = [](std::uint32_t w, int n, int bits, bool is_signed) {
        const int v = static_cast<int>(w >> (n * bits) & ((1u << bits) - 1));
        return is_signed && v >> (bits - 1) ? v - (1 << bits) : v;
      };
      auto each = [&](int bits, bool is_signed, auto f) {
        std::uint32_t w = 0;
        for (int n = 0; n < 32 / bits; ++n)
          w |=
              (static_cast<std::uint32_t>(f(part(a[i], n, bits, is_signed), part(b[i], n, bits, is_signed))) &
               ((1u << bits) - 1))
              << (n * bits);
        return w;
      };
      const std::uint32_t* to = &r[i * 8];
      CAPTURE(a[i], b[i]);
      CHECK(to[0] == each(16, false, [](int x, int y) { return x + y; }));
      CHECK(to[1] == each(8, false, [](int x, int y) { return std::abs(x - y); }));
      std::uint32_t sum = 0;
      for (int n = 0; n < 4; ++n)
        sum += static_cast<std::uint32_t>(std::abs(part(a[i], n, 8, true) - part(b[i], n, 8, true)));
      CHECK(to[2] == sum);
      CHECK(to[3] == each(16, true, [](int x, int y) { return std::max(x, y); }));
      auto wrapped = [](int x) { return static_cast<int>(static_cast<std::int16_t>(x)); };
      CHECK(to[4] == each(16, true, [&](int x, int y) { return std::max({wrapped(x + y), 16, 0}); }));
      CHECK(to[5] == each(8, true, [](int x, int y) { return x > y ? -1 : 0; }));
      CHECK(to[6] == each(8, false, [](int x, int y) { return (x + y + 1) / 2; }));
      CHECK(to[7] == each(16, true, [](int x, int y) { return std::max(std::min(x, y), 0); }));
    }
  });
}

TEST_CASE(
    "nvcc: atomics made of compare-and-swaps are no races, as long as the guesses are not used otherwise",
    "[emulator]") {
  on_each([](Machine& m, std::mt19937_64&) {
    if (!m.optimised) return; // without optimisation, values pass through variables in memory
    const std::size_t n = 3 * 64;
    auto small = m.upload(std::vector<std::uint16_t>(3), "small");
    auto largest = m.upload(std::vector<float>(1), "largest");
    auto sum = m.upload(std::vector<double>(1), "sum");
    auto in_block = m.room<float>(n, "in_block"), before = m.room<float>(n, "before");
    m.run("swaps", 3, 64, {small, largest, sum, in_block, before});
    CHECK(m.download<std::uint16_t>(small, 3) == std::vector<std::uint16_t>(3, 0x4280)); // 64
    CHECK(m.download<float>(largest, 1)[0] == static_cast<float>(n - 1));
    CHECK(m.download<double>(sum, 1)[0] == static_cast<double>(n * (n - 1) / 2));
    for (std::size_t i = 0; i < n; ++i)
      CHECK(m.download<float>(in_block, n)[i] == static_cast<float>(i / 64 * 64 + 63));

    auto word = m.upload(std::vector<int>(1), "word"), guesses = m.room<int>(n, "guesses");
    const std::uint64_t words[] = {word, guesses};
    const auto report = m.gpu.launch(m.module, "swaps_and_stores", {.grid = {3}, .block = {64}}, words);
    INFO(report.text());
    REQUIRE(!report.findings.empty());
    for (const auto& f : report.findings) {
      CHECK(f.fault == emulator::Fault::RaceGlobal);
      CHECK(f.message.find("programs.cu:") != std::string::npos);
    }
  });
}

TEST_CASE("nvcc: copies of padding are no findings, and missing writes are", "[emulator]") {
  on_each([](Machine& m, std::mt19937_64& random) {
    std::vector<float> x(64);
    for (float& v : x)
      v = static_cast<float>(random() % 1000000);
    auto dx = m.upload(x, "x"), best = m.room<float>(6, "best");
    m.run("best", 1, 64, {dx, best});
    const auto found = m.download<float>(best, 6);
    CHECK(found[0] == *std::max_element(x.begin(), x.end()));
    CHECK(found[2] == *std::max_element(x.begin(), x.begin() + 32));
    CHECK(found[4] == *std::max_element(x.begin() + 32, x.end()));

    auto kept = m.room<char>(32 * 160, "kept"), copied = m.room<char>(32 * 160, "copied"),
         out = m.room<float>(32, "out");
    m.run("nested", 1, 32, {kept, copied, out});
    const auto sums = m.download<float>(out, 32);
    for (std::uint32_t t = 0; t < 32; ++t)
      CHECK(sums[t] == static_cast<float>(4 * (31 - (t ^ 1)) + 8 + ((t ^ 1) == 7)));

    auto from = m.room<float>(128, "from"), to = m.room<float>(128, "to");
    m.run("grouped_copy", 1, 64, {from, to});
    const auto reversed = m.download<float>(to, 128);
    for (std::size_t t = 0; t < 64; ++t)
      CHECK(reversed[2 * t] == static_cast<float>(63 - t));

    auto missed = m.room<float>(128, "missed");
    const std::uint64_t words[] = {missed};
    const auto report = m.gpu.launch(m.module, "missed", {.block = {64}}, words);
    INFO(report.text());
    REQUIRE(report.findings.size() == 2);
    for (const auto& f : report.findings) {
      CHECK(f.fault == emulator::Fault::Uninitialised);
      CHECK(f.times == 1);
      CHECK(f.message.find("programs.cu:") != std::string::npos);
    }
    CHECK(report.findings[0].thread[0] == 4);
    CHECK(report.findings[1].thread[0] == 6);
  });
}
