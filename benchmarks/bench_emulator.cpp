// Measures the speed of the emulated GPU on one core, with and without its checks.
//
//   build/bin/bench_emulator [--json FILE] [--rounds N]
//
// It reports lane instructions per second, and the time of one bf16 tile program of 128 x 128 x 64 that uses
// mma.sync.
#include <kiln/kiln.h>

#include <kiln/jit/emulator/emulator.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

const auto matmul = kernel("matmul", [](View<const bf16, 2> a, View<const bf16, 2> b, View<bf16, 2> c) {
  auto [m, n] = program_tile(c, BM, BN);
  auto acc = for_range(BK, a.cols(), zeros<float>(BM, BN),
                       [&](auto k, auto sum) { return sum + dot(a.tile(m, k).load(), b.tile(k, n).load()); });
  c.tile(m, n).store(cast<bf16>(acc));
});

// Integer and float arithmetic in a loop, as kernels execute it between memory accesses.
constexpr const char* arithmetic = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %x<9>; .reg .f32 %f<9>; .reg .pred %p;
ld.param.u64 %x0, [x]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
mad.wide.u32 %x1, %r2, 4, %x0; ld.global.f32 %f1, [%x1]; mov.f32 %f2, 0f3F000000; mov.u32 %r5, 0;
loop: fma.rn.f32 %f1, %f1, %f2, %f2; mul.f32 %f3, %f1, %f2; add.f32 %f1, %f1, %f3; shl.b32 %r6, %r5, 2;
xor.b32 %r6, %r6, %r2; and.b32 %r7, %r6, 255; cvt.rn.f32.u32 %f4, %r7; fma.rn.f32 %f1, %f4, %f2, %f1;
add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, %r1; @%p bra loop;
st.global.f32 [%x1], %f1; ret;
}
)";

// y = 2 x + y in a grid-stride loop: three of ten instructions access global memory.
constexpr const char* streaming = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %x<9>; .reg .f32 %f<9>; .reg .pred %p;
ld.param.u64 %x0, [x]; ld.param.u64 %x1, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
mov.u32 %r5, %nctaid.x; mul.lo.u32 %r5, %r5, %r4;
loop: mul.wide.u32 %x2, %r2, 4; add.u64 %x3, %x0, %x2; add.u64 %x4, %x1, %x2; ld.global.f32 %f1, [%x3];
ld.global.f32 %f2, [%x4]; fma.rn.f32 %f2, %f1, 0f40000000, %f2; st.global.f32 [%x4], %f2; add.u32 %r2, %r2, %r5;
setp.lt.u32 %p, %r2, %r1; @%p bra loop;
ret;
}
)";

// Rounds of a tree sum in shared memory, with a barrier in each.
constexpr const char* reduction = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .b32 %r<12>; .reg .b64 %x<9>; .reg .f32 %f<9>; .reg .pred %p; .reg .pred %q; .shared .align 4 .b8 part[1024];
ld.param.u64 %x0, [x]; ld.param.u64 %x5, [y]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, part;
shl.b32 %r4, %r2, 2; add.u32 %r4, %r4, %r3; mov.u32 %r5, 0; mul.wide.u32 %x1, %r2, 4; add.u64 %x2, %x0, %x1;
again: ld.global.f32 %f1, [%x2]; st.shared.f32 [%r4], %f1; bar.sync 0; mov.u32 %r6, 128;
half: setp.lt.u32 %p, %r2, %r6; shl.b32 %r7, %r6, 2; add.u32 %r7, %r7, %r4; @%p ld.shared.f32 %f2, [%r7];
@%p ld.shared.f32 %f3, [%r4]; @%p add.f32 %f3, %f3, %f2; @%p st.shared.f32 [%r4], %f3; bar.sync 0;
shr.u32 %r6, %r6, 1; setp.ne.u32 %q, %r6, 0; @%q bra half;
add.u32 %r5, %r5, 1; setp.lt.u32 %q, %r5, %r1; @%q bra again;
setp.eq.u32 %p, %r2, 0; mov.u32 %r8, %ctaid.x; mul.wide.u32 %x3, %r8, 4; add.u64 %x3, %x5, %x3; @%p st.global.f32 [%x3], %f3;
ret;
}
)";

struct Program {
  const char *name, *text;
  std::uint32_t blocks, threads, n;
};
constexpr Program programs[] = {{"arithmetic", arithmetic, 16, 256, 400},
                                {"streaming", streaming, 16, 256, 1 << 19},
                                {"reduction", reduction, 16, 256, 60}};

struct Mode {
  const char *name, *checks;
};
constexpr Mode modes[] = {{"no checks", "none"}, {"init,bounds", "init,bounds"}, {"all checks", "all"}};

struct Row {
  std::string name, unit;
  std::function<double()> measure; // runs once; returns seconds or instructions per second
  std::vector<double> values;
  double median() {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
};

double seconds_of(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_emulator: %s\n", what.c_str());
  std::exit(1);
}

std::function<double()> instruction_rate(const Program& p, const Mode& mode) {
  emulator::Options options;
  options.checks = emulator::Checks::parse(mode.checks);
  auto gpu = std::make_shared<emulator::Gpu>(options);
  auto module = emulator::Module::parse(p.text, std::string(p.name) + ".ptx");
  const std::uint64_t bytes = std::max<std::uint64_t>(p.n, p.blocks * p.threads) * 4;
  std::vector<float> values(bytes / 4);
  std::mt19937 random(1);
  for (float& v : values)
    v = static_cast<float>(random() % 1000) * 0.001f;
  std::uint64_t words[3] = {gpu->allocate(bytes, "x"), gpu->allocate(bytes, "y"), p.n};
  gpu->write(words[0], values.data(), bytes);
  gpu->write(words[1], values.data(), bytes);
  return [=, &p]() mutable {
    emulator::Report report;
    const double seconds = seconds_of(
        [&] { report = gpu->launch(module, "k", {.grid = {p.blocks}, .block = {p.threads}}, words); });
    if (!report.ok()) fail(report.text());
    return static_cast<double>(report.lane_instructions) / seconds;
  };
}

std::function<double()> tile_time(const char* arch, const Mode& mode) {
  const Device gpu = Device::emulated(arch, {.checks = mode.checks});
  auto host = Tensor<bf16, 2>::empty({128, 64}), other = Tensor<bf16, 2>::empty({64, 128});
  std::mt19937 random(2);
  for (auto* t : {&host, &other})
    for (bf16& v : *t)
      v = bf16(static_cast<float>(random() % 200) * 0.01f - 1.0f);
  auto a = std::make_shared<Tensor<bf16, 2>>(host.to(gpu)),
       b = std::make_shared<Tensor<bf16, 2>>(other.to(gpu)),
       c = std::make_shared<Tensor<bf16, 2>>(Tensor<bf16, 2>::empty(gpu, {128, 128}));
  auto stream = std::make_shared<Stream>(gpu);
  auto launch = [=] {
    matmul.launch(*stream, {BM = 128, BN = 128, BK = 64, num_warps = 8}, *a, *b, *c);
    stream->synchronize();
  };
  launch(); // compiles
  return [=] { return seconds_of(launch); };
}

} // namespace

int main(int argc, char** argv) {
  std::string json_file;
  int rounds = 15;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc)
      json_file = argv[++i];
    else if (word == "--rounds" && i + 1 < argc)
      rounds = std::max(1, std::atoi(argv[++i]));
    else
      fail("usage: bench_emulator [--json FILE] [--rounds N]");
  }
  std::vector<Row> rows;
  for (const Program& p : programs)
    for (const Mode& m : modes)
      rows.push_back(
          {std::string(p.name) + ", " + m.name, "M lane instructions/s", instruction_rate(p, m), {}});
  for (const char* arch : {"sm_80", "sm_90a"})
    for (const Mode& m : modes)
      rows.push_back(
          {"128 x 128 x 64 bf16 tile, " + std::string(arch) + ", " + m.name, "ms", tile_time(arch, m), {}});
  for (Row& row : rows)
    row.measure(); // warms up
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows) // all rows run in each round, so that a slow phase of the machine affects all
      row.values.push_back(row.measure());
  double load = 0; // of the whole machine: it is about 1 if no other program runs
  if (getloadavg(&load, 1) != 1) load = -1;
  std::printf("%-50s %10.2f\n", "load average", load);
  nlohmann::ordered_json json = {{"cpu", Device::cpu().properties().name},
                                 {"rounds", rounds},
                                 {"load_average", load},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (Row& row : rows) {
    const bool rate = row.unit != "ms";
    const double value = rate ? row.median() * 1e-6 : row.median() * 1e3;
    std::printf("%-50s %10.3f %s\n", row.name.c_str(), value, row.unit.c_str());
    json["rows"].push_back({{"name", row.name}, {"value", value}, {"unit", row.unit}});
  }
  if (json_file.empty()) return 0;
  std::ofstream out(json_file);
  out << json.dump(2) << '\n';
  out.close();
  if (!out) fail(json_file + " cannot be written");
}
