// Tests what `kiln bench` measures and prints.
#include <catch2/catch.hpp>

#include <kiln/autotune/cli/bench.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/kiln.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace kiln::tune;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

const auto product = kernel("benched", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
  auto [m, n] = program_tile(c, BM, BN);
  auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                       [&](auto k, auto sum) { return sum + dot(a.tile(m, k).load(), b.tile(k, n).load()); });
  c.tile(m, n).store(sum);
});

const TunableKernel tunable{
    .name = "benched product",
    .summary = "c = a b",
    .dtypes = {DType::F32},
    .record = [](DType, const Problem&, const Config& config) { return product.record(config); },
    .space =
        [](DType, const Problem&, Device) {
          Space space;
          space.pow2("BM", 16, 128).pow2("BN", 16, 128).pow2("BK", 16, 128).oneof("idle", {0, 1});
          space.seed({{"BM", 32}, {"BN", 64}, {"BK", 32}});
          return space;
        },
    .sizes = "M=96,N=128,K=64",
    .parameters = "a=M,K b=K,N c=M,N",
};
const TunableRegistration registration(tunable);

// Runs a command and returns its exit code and what it printed.
std::pair<int, std::string> run(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  std::fflush(stdout);
  std::FILE* file = std::tmpfile();
  const int before = ::dup(1);
  ::dup2(::fileno(file), 1);
  int code = -1;
  std::string thrown;
  try {
    code = cli::find_command(words[0])->run(static_cast<int>(argv.size()), argv.data());
  } catch (const UserError& error) {
    thrown = error.what();
  }
  std::fflush(stdout);
  ::dup2(before, 1), ::close(before);
  std::rewind(file);
  std::string text = thrown;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
    text.append(buffer, n);
  std::fclose(file);
  return {code, text};
}

} // namespace

TEST_CASE("a bench times the config and compares it with the machine", "[bench]") {
  const Task task = make_task(tunable, "", "M=200", Device::cpu());
  const Machine machine = assumed_machine(task.device);
  for (bool cold : {false, true}) {
    const Bench b = bench(task, config_for(task, "BM=64"), machine, {.cold = cold, .seconds = 0.05});
    CHECK(b.config.to_string() == "BK=32,BM=64,BN=64");
    CHECK(b.timing.seconds > 0);
    CHECK(b.timing.interval.low <= b.timing.seconds);
    CHECK(b.timing.seconds <= b.timing.interval.high);
    CHECK(b.timing.launches >= b.timing.samples);
    const double flops =
        b.arithmetic.rate * b.timing.seconds; // with the padding of tiles, if the useful part is unknown
    CHECK(flops > 1.99 * 200 * 128 * 64);
    CHECK(flops < 2.01 * 256 * 128 * 64);
    CHECK(b.arithmetic.peak == machine.f32);
    CHECK(b.memory.rate == Approx(4.0 * (200 * 64 + 64 * 128 + 200 * 128) / b.timing.seconds).epsilon(0.01));
    CHECK((b.memory.peak == machine.memory) == cold);
    CHECK(b.facts.count("code_bytes") == 1);
  }
}

TEST_CASE("a bench runs on an emulated GPU", "[bench]") {
  const Task task =
      make_task(tunable, "f32", "64x64x64", Device::emulated("sm_80", EmulatorOptions{.checks = "none"}));
  const Bench b =
      bench(task, config_for(task, "num_warps=2"), assumed_machine(task.device), {.seconds = 0.05});
  CHECK(b.timing.seconds > 0);
  CHECK(b.config.get("num_warps") == 2);
}

TEST_CASE("a config may name dimensions, options and knobs, and nothing else", "[bench]") {
  const Task task = make_task(tunable, "", "", Device::cpu());
  CHECK(config_for(task, "idle=1").get("idle") == 1);
  CHECK(config_for(task, "").get("BN") == 64);
  CHECK_THROWS_WITH(config_for(task, "BQ=1"),
                    "--config BQ=1: benched product has no \"BQ\"; its default config is "
                    "BK=32,BM=32,BN=64,idle=0");
  // Whether a config is legal is found when it is compiled.
  CHECK_THROWS_AS(bench(task, config_for(task, "BM=0"), assumed_machine(task.device)), UserError);
}

TEST_CASE("kiln bench prints text and JSON, and lists kernels", "[bench]") {
  auto [code, text] =
      run({"bench", "benched product", "--shape", "96x64x64", "--seconds", "0.05", "--config", "BM=16"});
  INFO(text);
  CHECK(code == 0);
  CHECK(text.find("benched product M=96,N=64,K=64 f32") == 0);
  CHECK(text.find("\n  config      BK=32,BM=16,BN=64\n") != std::string::npos);
  CHECK(text.find("\n  arithmetic  ") != std::string::npos);
  auto [json_code, json_text] = run({"bench", "benched product", "--json", "--warm", "--seconds", "0.05"});
  CHECK(json_code == 0);
  const auto json = nlohmann::json::parse(json_text);
  CHECK(json["sizes"]["M"] == 96);
  CHECK(json["cold"] == false);
  CHECK(json["seconds"] > 0);
  CHECK(json["low"] <= json["seconds"]);
  auto [list_code, list] = run({"bench"});
  CHECK(list_code == 0);
  CHECK(list.find("benched product              c = a b\n") != std::string::npos);
}

TEST_CASE("kiln bench reports unknown kernels, dtypes, shapes and devices", "[bench]") {
  CHECK(run({"bench", "benched produce"}).second ==
        "there is no tunable kernel \"benched produce\"; did you mean benched product?");
  CHECK(run({"bench", "benched product", "--dtype", "f8"}).second == "--dtype f8: benched product has f32");
  CHECK(run({"bench", "benched product", "--shape", "3x4"}).second.find("has 3 sizes") != std::string::npos);
  CHECK(run({"bench", "benched product", "--device", "gpu"}).first == -1);
}
