// Measures how much of the communication of products is hidden, on the virtual clock and on this machine.
//
//   build/bin/bench_collectives                    prints tables
//   build/bin/bench_collectives --json FILE        also writes the results to a file
//   build/bin/bench_collectives --json             prints the results, and the tables to the standard error
//   build/bin/bench_collectives --quick            fewer rounds, and smaller products on the wall clock
//   build/bin/bench_collectives --only wall_never_slower       one of the sections
//
// hidden = (serial - overlapped) / min(computation, communication). On the virtual clock, times are exact. On
// the wall clock, ranks are threads with CPUs of their own, and transfers wait for an emulated link, so that
// they take no CPU but that of a copy. The contenders take turns, and medians of their times count; a time
// is that of the slowest rank. A table has the times of collectives between the threads themselves.
#include "collective_times.h"
#include "never_slower.h"
#include "numbers.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <kiln/collectives/model_plan.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/tensor_parallel.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace kiln::collectives;

namespace {

using Json = nlohmann::ordered_json;
using benchmarks::time_text;

double seconds(Nanoseconds t) { return static_cast<double>(t) * 1e-9; }
template <class T> T median(std::vector<T> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// ---- the virtual clock ----

Json hidden_by_ratio() {
  fmt::print(
      "Virtual clock: hidden share of the chosen schedule, and of the best of all even chunkings up to 16\n");
  fmt::print("{:<24} {:>6} {:>6} {:>8} {:>8}  {}\n", "", "ranks", "ratio", "chosen", "best", "schedule");
  Json rows = Json::array();
  const ComputeModel machine{.flops_per_second = 1e12};
  for (ProductKind kind : {ProductKind::gather_matmul, ProductKind::matmul_reduce_scatter})
    for (int ranks : {2, 4, 8})
      for (double ratio : {0.25, 0.5, 1.0, 2.0}) {
        const ProductShape shape{kind, Shards::even(1024 * ranks, ranks), 1024, 1024};
        const double computation = static_cast<double>(machine.product(1024 * ranks, 1024, 1024, 4));
        const LinkModel link{.bytes_per_second =
                                 (ranks - 1) * 1024.0 * 1024 * 4 / (computation * ratio) * 1e9,
                             .latency = 1000};
        const Plan plan = plan_by_forecast(shape, link, machine);
        Nanoseconds best = plan.options[0].forecast;
        for (const char* name : {"ring", "direct"})
          for (int chunks = 1; chunks <= 16; ++chunks) {
            if (kind != ProductKind::gather_matmul && std::string(name) == "ring") continue;
            const Schedule s =
                schedule_of(shape, {name, std::vector<int>(static_cast<std::size_t>(chunks), 1)});
            best = std::min(best, forecast(s, link, cost_of(shape, machine, s)).makespan);
          }
        const double possible = static_cast<double>(plan.options[0].forecast - best) /
                                static_cast<double>(std::min(plan.computation, plan.communication));
        fmt::print("{:<24} {:>6} {:>6} {:>8.3f} {:>8.3f}  {}\n", name_of(kind), ranks, ratio, plan.hidden,
                   possible, plan.choice().candidate.text());
        rows.push_back({{"kind", name_of(kind)},
                        {"ranks", ranks},
                        {"ratio", ratio},
                        {"hidden", plan.hidden},
                        {"best", possible},
                        {"schedule", plan.choice().candidate.text()}});
      }
  return rows;
}

// The products of the models of `kiln tp plan`, for prefill and decoding.
Json never_slower() {
  int shapes = 0, overlapping = 0;
  double worst = 0;
  Json rows = Json::array();
  for (const ModelShape& model : known_models())
    for (const char* link : {"nvlink4", "pcie5"})
      for (std::int64_t tokens : {1, 64, 512, 4096})
        for (int ranks : {2, 4, 8}) {
          const ModelPlan plan = plan_model(model, *known_machine("h100"), *known_link(link),
                                            {.ranks = ranks, .tokens = tokens});
          for (const ModelPlan::Part& part : plan.parts) {
            if (part.schedule.empty()) continue;
            const double ratio = static_cast<double>(part.time) / static_cast<double>(part.serial);
            ++shapes, overlapping += part.schedule != "serial", worst = std::max(worst, ratio);
          }
          rows.push_back({{"model", model.name},
                          {"link", link},
                          {"tokens", tokens},
                          {"ranks", ranks},
                          {"layer_ns", plan.layer_time()},
                          {"serial_layer_ns", plan.serial_layer_time()}});
        }
  fmt::print("\nVirtual clock: {} products of published models; the chosen schedule takes at most {:.3f} of "
             "the serial one's time; {} "
             "overlap\n",
             shapes, worst, overlapping);
  return {{"shapes", shapes}, {"worst", worst}, {"overlapping", overlapping}, {"layers", rows}};
}

// ---- the wall clock ----

struct WallTimes {
  std::vector<Nanoseconds> computation, serial, chosen; // of each round
  std::string schedule;
};

// A product on `ranks` ranks, with a link on which what each receives takes `communication`; 0: no link.
WallTimes run_product(ProductKind kind, int ranks, std::int64_t size, Nanoseconds communication, int rounds) {
  const bool gathers = kind == ProductKind::gather_matmul;
  const double bytes =
      static_cast<double>((ranks - 1) * (gathers ? size / ranks * size : size / ranks * size)) * 4;
  WallTimes times;
  RanksOptions options{.ranks = ranks};
  if (communication > 0)
    options.link = {.bytes_per_second = bytes / seconds(communication), .latency = 20000};
  run_ranks(options, [&](Communicator& comm) {
    Stream stream(comm.device());
    auto matrix = [&](std::int64_t rows, std::int64_t columns) {
      auto t = Tensor<float, 2>::empty({rows, columns});
      std::uint32_t state = static_cast<std::uint32_t>(comm.rank()) + 1;
      for (float& x : t)
        state = state * 1664525u + 1013904223u, x = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
      return t;
    };
    const std::int64_t own = Shards::even(size, ranks).rows(comm.rank()).count(), part = size / ranks;
    const auto a = gathers ? matrix(own, size) : matrix(size, part),
               b = gathers ? matrix(size, part) : matrix(part, size);
    auto c = gathers ? matrix(size, part) : matrix(own, size), gathered = matrix(size, size),
         local = matrix(size, gathers ? part : size);
    TensorParallel serial(comm, {.overlap = false}), chosen(comm);
    const auto run = [&](TensorParallel& tp) {
      if (gathers)
        tp.gather_matmul(stream, a, b, c, gathered);
      else
        tp.matmul_reduce_scatter(stream, a, b, c);
    };
    const auto timed = [&](std::vector<Nanoseconds>& list, const auto& body) {
      comm.barrier();
      const Nanoseconds began = comm.now();
      body();
      const Nanoseconds took = comm.now() - began;
      std::vector<Nanoseconds> all(static_cast<std::size_t>(ranks));
      const TensorView<const Nanoseconds, 1> mine(&took, {1});
      comm.all_gather(stream, mine, TensorView<Nanoseconds, 1>(all.data(), {ranks}));
      if (comm.rank() == 0) list.push_back(*std::max_element(all.begin(), all.end()));
    };
    run(serial), run(chosen); // plans and compiles
    for (int round = 0; round < rounds; ++round) {
      timed(times.computation, [&] {
        ops::matmul(stream, gathers ? gathered : a, b, local, {.batch_invariant = true});
        stream.synchronize();
      });
      timed(times.serial, [&] { run(serial); });
      timed(times.chosen, [&] { run(chosen); });
    }
    if (comm.rank() == 0) times.schedule = chosen.plans().begin()->second.choice().candidate.text();
  });
  return times;
}

Json wall_clock(bool quick) {
  fmt::print("\nWall clock: f32 products on ranks that are threads of this machine, over an emulated link\n");
  fmt::print("{:<24} {:>6} {:>6} {:>6} {:>12} {:>12} {:>12} {:>8} {:>8}  {}\n", "", "ranks", "size", "ratio",
             "computation", "serial", "chosen", "hidden", "of limit", "schedule");
  Json rows = Json::array();
  const int rounds = quick ? 5 : 21;
  for (ProductKind kind : {ProductKind::gather_matmul, ProductKind::matmul_reduce_scatter})
    for (double ratio : {0.5, 1.0}) {
      const std::int64_t size = quick ? 512 : 2048;
      const Nanoseconds alone = median(run_product(kind, 2, size, 0, 3).computation);
      const auto communication = static_cast<Nanoseconds>(ratio * static_cast<double>(alone));
      const WallTimes t = run_product(kind, 2, size, communication, rounds);
      std::vector<double> ratios;
      for (std::size_t i = 0; i < t.serial.size(); ++i)
        ratios.push_back(static_cast<double>(t.chosen[i]) / static_cast<double>(t.serial[i]));
      const Nanoseconds c = median(t.computation), s = median(t.serial), o = median(t.chosen);
      const double hidden = static_cast<double>(s - o) / static_cast<double>(std::min(c, communication)),
                   limit = static_cast<double>(std::max(c, communication)) / static_cast<double>(o);
      fmt::print("{:<24} {:>6} {:>6} {:>6} {:>12} {:>12} {:>12} {:>8.2f} {:>8.2f}  {}\n", name_of(kind), 2,
                 size, ratio, time_text(seconds(c)), time_text(seconds(s)), time_text(seconds(o)), hidden,
                 limit, t.schedule);
      rows.push_back({{"kind", name_of(kind)},
                      {"ranks", 2},
                      {"size", size},
                      {"ratio", ratio},
                      {"computation", seconds(c)},
                      {"serial", seconds(s)},
                      {"chosen", seconds(o)},
                      {"hidden", hidden},
                      {"of_limit", limit},
                      {"median_ratio_to_serial", median(ratios)},
                      {"schedule", t.schedule}});
    }
  return rows;
}

// The standard output as it is now; what is printed from now on goes to the standard error.
std::FILE* take_output() {
  const int output = dup(STDOUT_FILENO);
  return output >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? fdopen(output, "w") : nullptr;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures how much of the communication of products is hidden, and the speed of collectives.");
  std::string path;
  bool quick = false;
  const CLI::Option* wants_json =
      app.add_option("--json", path, "write the results to this file; without a file, print them")
          ->expected(0, 1);
  app.add_flag("--quick", quick, "fewer rounds, and smaller products on the wall clock");
  std::string only;
  app.add_option("--only", only, "run only this section")
      ->check(CLI::IsMember(
          {"hidden", "never_slower", "wall_clock", "collectives", "one_rank", "wall_never_slower"}));
  benchmarks::NeverSlowerOptions of_never_slower;
  app.add_option("--seconds", of_never_slower.seconds, "about how long wall_never_slower takes")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  of_never_slower.quick = quick;
  std::FILE* file = nullptr;
  if (wants_json->count() > 0) {
    // The old contents of the file stay until there are new ones.
    file = path.empty() ? take_output() : std::fopen(path.c_str(), "a");
    if (!file) {
      fmt::print(stderr, "bench_collectives: cannot write {}\n", path.empty() ? "the results" : path);
      return 1;
    }
  }
  Json json = {{"cpu", Device::cpu().properties().name}, {"threads", Device::cpu().properties().num_threads}};
  const auto runs = [&](const char* section) { return only.empty() || only == section; };
  if (runs("hidden")) json["hidden"] = hidden_by_ratio();
  if (runs("never_slower")) json["never_slower"] = never_slower();
  if (runs("wall_clock")) json["wall_clock"] = wall_clock(quick);
  if (runs("collectives")) json["collectives"] = benchmarks::collective_times(quick);
  if (runs("one_rank")) json["one_rank"] = benchmarks::overhead_on_one_rank();
  if (runs("wall_never_slower")) json["wall_never_slower"] = benchmarks::wall_never_slower(of_never_slower);
  if (file && !path.empty()) file = std::freopen(path.c_str(), "w", file);
  if (wants_json->count() > 0) {
    if (!file) return 1;
    fmt::print(file, "{}\n", json.dump(2));
    if (std::fclose(file) != 0) return 1;
  }
  return 0;
}
