// Compares the planned schedule with the serial one on the wall clock, for products of published models.
#pragma once

#include "numbers.h"
#include "paired_ratio.h"

#include <fmt/format.h>
#include <kiln/collectives/model_plan.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/tensor_parallel.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace benchmarks {

using kiln::collectives::Nanoseconds, kiln::collectives::ProductKind;

// The product of one rank: all rows, and this rank's part of b.
struct RankProduct {
  std::string name;
  int tokens; // of the model
  ProductKind kind;
  std::int64_t rows, n, k;
};

// The products with a collective of the models of `kiln tp plan`: prefill of 4096 tokens on 2 and 8 ranks and
// of 512 on 4, and 64 sequences that decode without sequence parallelism on 2 and 8. Models share some.
inline std::vector<RankProduct> published_products() {
  std::vector<RankProduct> products;
  const auto add = [&](const RankProduct& p) {
    const auto same = [&](const RankProduct& q) {
      return std::tie(p.kind, p.rows, p.n, p.k) == std::tie(q.kind, q.rows, q.n, q.k);
    };
    if (std::none_of(products.begin(), products.end(), same)) products.push_back(p);
  };
  for (const kiln::collectives::ModelShape& m : kiln::collectives::known_models())
    for (const auto& [tokens, ranks] : {std::pair{4096, 2}, {4096, 8}, {512, 4}, {64, 2}, {64, 8}}) {
      const std::int64_t heads = m.heads * m.head_size / ranks, keys = m.kv_heads * m.head_size / ranks,
                         hidden = m.hidden / ranks;
      const auto name = [&](const char* layer) { return fmt::format("{} {} tp {}", m.name, layer, ranks); };
      const bool divided = tokens > 64;
      const ProductKind to_rows =
          divided ? ProductKind::matmul_reduce_scatter : ProductKind::matmul_all_reduce;
      if (divided) { // otherwise nothing is sent
        add({name("qkv"), tokens, ProductKind::gather_matmul, tokens, heads + 2 * keys, m.width});
        add({name("up"), tokens, ProductKind::gather_matmul, tokens, 2 * hidden, m.width});
      }
      add({name("out"), tokens, to_rows, tokens, m.width, heads});
      add({name("down"), tokens, to_rows, tokens, m.width, hidden});
    }
  return products;
}

// The product with as many operations as requested, and about the same ratios of its extents.
inline RankProduct scaled(RankProduct p, double flops) {
  const double by = std::cbrt(flops / (2.0 * static_cast<double>(p.rows) * static_cast<double>(p.n * p.k)));
  const auto scale = [by](std::int64_t& extent) {
    extent = std::max<std::int64_t>(1, std::llround(static_cast<double>(extent) * by / 16)) * 16;
  };
  scale(p.rows), scale(p.n), scale(p.k);
  return p;
}

struct PairedTimes {
  std::vector<double> computation, serial, chosen; // seconds of the slowest rank
  std::string schedule;
};

struct PairedOptions {
  Nanoseconds communication = 0; // of the serial schedule, by the emulated link; 0: only the product is timed
  double seconds = 0;            // of all pairs
  int least_pairs = 8, most_pairs = 40;
};

inline constexpr int paired_ranks = 2;

// Times an f32 product on two ranks, which have half of the CPUs each.
inline PairedTimes run_pairs(const RankProduct& p, const PairedOptions& options) {
  using namespace kiln;
  using namespace kiln::collectives;
  const bool gathers = p.kind == ProductKind::gather_matmul;
  RanksOptions ranks{.ranks = paired_ranks};
  if (options.communication > 0) {
    // Each rank receives half of a tensor; for all_reduce, half of the contributions and half of the sums.
    const std::int64_t received = gathers                                    ? p.rows * p.k / 2
                                  : p.kind == ProductKind::matmul_all_reduce ? p.rows * p.n
                                                                             : p.rows * p.n / 2;
    ranks.link = {.bytes_per_second =
                      static_cast<double>(received) * 4e9 / static_cast<double>(options.communication),
                  .latency = 20000};
  }
  PairedTimes times;
  run_ranks(ranks, [&](Communicator& comm) {
    Stream stream(comm.device());
    const auto matrix = [](std::int64_t rows, std::int64_t columns) {
      auto t = Tensor<float, 2>::empty({rows, columns});
      t.fill(0.5f);
      return t;
    };
    const std::int64_t own = p.rows / 2;
    const bool scatters = p.kind == ProductKind::matmul_reduce_scatter;
    const auto a = matrix(gathers ? own : p.rows, p.k), b = matrix(p.k, p.n);
    auto c = matrix(scatters ? own : p.rows, p.n), gathered = matrix(p.rows, p.k),
         local = matrix(p.rows, p.n);
    TensorParallel serial(comm, {.overlap = false}), chosen(comm);
    const auto run = [&](TensorParallel& tp) {
      switch (p.kind) {
      case ProductKind::gather_matmul: return tp.gather_matmul(stream, a, b, c, gathered);
      case ProductKind::matmul_reduce_scatter: return tp.matmul_reduce_scatter(stream, a, b, c);
      case ProductKind::matmul_all_reduce: return tp.matmul_all_reduce(stream, a, b, c);
      }
    };
    // The time of the slowest rank, which all ranks return.
    const auto timed = [&](const auto& body) {
      comm.barrier();
      const Nanoseconds began = comm.now();
      body();
      const Nanoseconds took = comm.now() - began;
      Nanoseconds all[paired_ranks];
      const TensorView<const Nanoseconds, 1> mine(&took, {1});
      comm.all_gather(stream, mine, TensorView<Nanoseconds, 1>(all, {paired_ranks}));
      return static_cast<double>(*std::max_element(all, all + paired_ranks)) * 1e-9;
    };
    const auto computes = [&] {
      ops::matmul(stream, gathers ? gathered : a, b, local, {.batch_invariant = true});
      stream.synchronize();
    };
    PairedTimes mine;
    computes();
    for (int round = 0; round < 5; ++round)
      mine.computation.push_back(timed(computes));
    if (options.communication > 0) {
      run(serial), run(chosen); // plans and compiles
      const Plan& plan = chosen.plans().begin()->second;
      mine.schedule = plan.choice().candidate.text();
      double spent = 0;
      for (int pair = 0; plan.overlaps() && pair < options.most_pairs; ++pair) {
        if (pair >= options.least_pairs && spent > options.seconds) break;
        double s = 0, o = 0;
        if (pair % 2 == 0) s = timed([&] { run(serial); });
        o = timed([&] { run(chosen); });
        if (pair % 2 == 1) s = timed([&] { run(serial); });
        mine.serial.push_back(s), mine.chosen.push_back(o), spent += s + o;
      }
    }
    if (comm.rank() == 0) times = std::move(mine);
  });
  return times;
}

struct NeverSlowerOptions {
  double seconds = 540; // of all products together
  bool quick = false;   // fewer and smaller products, and fewer pairs
};

// Prints a table and returns it. A product counts as not slower if the lower end of the interval of the ratio of
// its times (planned to serial) is at most 1.02. If the plan is the serial schedule, both are the same program,
// the ratio is 1, and nothing is timed. `at_most` counts products whose upper end is at most 1.02, for which
// being slower is excluded.
inline nlohmann::ordered_json wall_never_slower(const NeverSlowerOptions& options) {
  using Json = nlohmann::ordered_json;
  constexpr double tolerance = 1.02;
  const double shortest = options.quick ? 0.002 : 0.02; // of a product without communication
  std::vector<RankProduct> products = published_products();
  if (options.quick) {
    std::vector<RankProduct> some;
    for (std::size_t i = 0; i < products.size(); i += products.size() / 6)
      some.push_back(products[i]);
    products = some;
  }
  const auto began = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  fmt::print(
      "\nWall clock: the planned schedule compared with the serial one, {} products of published models, "
      "scaled, on two ranks\n",
      products.size());
  fmt::print("{:<24} {:>6} {:<22} {:>16} {:>5} {:>11} {:>11} {:>11} {:>6} {:>6} {:>6} {:>5}  {}\n", "",
             "tokens", "", "rows x n x k", "ratio", "computation", "serial", "planned", "mean", "low", "high",
             "pairs", "schedule");
  Json rows = Json::array();
  int timed = 0, not_slower = 0, at_most = 0;
  double worst_low = 1;
  for (std::size_t i = 0; i < products.size(); ++i) {
    // The size is adjusted until the product takes long enough.
    double flops = shortest * 6e10, alone = 0;
    RankProduct p = scaled(products[i], flops);
    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::vector<double> times = run_pairs(p, {}).computation;
      alone = *std::min_element(times.begin(), times.end());
      if (alone >= shortest) break;
      flops *= 1.15 * shortest / alone;
      p = scaled(products[i], flops);
    }
    const double ratio = i % 2 == 0 ? 0.5 : 1.0;
    PairedOptions paired{.communication = static_cast<Nanoseconds>(ratio * alone * 1e9)};
    if (options.quick) paired.least_pairs = paired.most_pairs = 5;
    // Planning takes about a third of the time.
    paired.seconds = 0.6 * (options.seconds - passed()) / static_cast<double>(products.size() - i);
    const PairedTimes t = run_pairs(p, paired);
    const bool serial = t.serial.empty();
    const PairedRatio r = serial ? PairedRatio() : paired_ratio(t.chosen, t.serial);
    timed += !serial, not_slower += r.low <= tolerance, at_most += r.high <= tolerance;
    worst_low = std::max(worst_low, r.low);
    Json row = {{"product", p.name},
                {"tokens", p.tokens},
                {"kind", name_of(p.kind)},
                {"rows", p.rows},
                {"n", p.n},
                {"k", p.k},
                {"ratio", ratio},
                {"computation", alone},
                {"schedule", t.schedule},
                {"pairs", t.serial.size()},
                {"mean", r.mean},
                {"low", r.low},
                {"high", r.high},
                {"not_slower", r.low <= tolerance}};
    std::string serial_text = "not timed", planned_text = "not timed";
    if (!serial) {
      row["serial"] = median(t.serial), row["planned"] = median(t.chosen);
      serial_text = time_text(row["serial"]), planned_text = time_text(row["planned"]);
    }
    fmt::print("{:<24} {:>6} {:<22} {:>16} {:>5} {:>11} {:>11} {:>11} {:>6.3f} {:>6.3f} {:>6.3f} {:>5}  {}\n",
               p.name, p.tokens, name_of(p.kind), fmt::format("{}x{}x{}", p.rows, p.n, p.k), ratio,
               time_text(alone), serial_text, planned_text, r.mean, r.low, r.high, t.serial.size(),
               t.schedule);
    std::fflush(stdout);
    rows.push_back(std::move(row));
  }
  fmt::print(
      "{} of {} products are not slower (lower end of the 95 % interval at most {}), of which {} have the "
      "serial schedule; for {}, the upper end is at most {}, too\n",
      not_slower, products.size(), tolerance, products.size() - static_cast<std::size_t>(timed), at_most,
      tolerance);
  return {{"ranks", paired_ranks},  {"tolerance", tolerance},   {"products", products.size()},
          {"timed", timed},         {"not_slower", not_slower}, {"at_most", at_most},
          {"worst_low", worst_low}, {"seconds", passed()},      {"rows", rows}};
}

} // namespace benchmarks
