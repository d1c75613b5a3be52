// Tests products that overlap with transfers: their results, bits, times and traces.
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/tensor_parallel.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/norm.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings, test::random_matrix;

namespace {

template <class T> using Matrix = Tensor<T, 2>;

template <class T> Matrix<T> filled(std::int64_t rows, std::int64_t columns, float value) {
  auto t = Matrix<T>::empty({rows, columns});
  t.fill(T(value));
  return t;
}

// A product of [m, k] and [k, n] on all ranks, in which each rank has rows of a and columns of b (to gather),
// or columns of a and rows of b (to reduce).
template <class T> struct WholeProduct {
  WholeProduct(std::mt19937_64& random, std::vector<std::int64_t> rows, std::int64_t features,
               std::int64_t other)
      : shards(std::move(rows)), k(features), n(other), a(random_matrix<T>(random, shards.rows(), k)),
        b(random_matrix<T>(random, k, n)), bias(random_matrix<T>(random, 1, n)),
        residual(random_matrix<T>(random, shards.rows(), n)) {}

  double exact(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p)
      sum += static_cast<double>(a.view()(i, p)) * static_cast<double>(b.view()(p, j));
    return sum + static_cast<double>(bias.view()(0, j));
  }

  Shards shards;
  std::int64_t k, n;
  Matrix<T> a, b, bias, residual;
};

std::vector<std::int64_t> random_rows(std::mt19937_64& random, int ranks) {
  std::vector<std::int64_t> rows;
  for (int i = 0; i < ranks; ++i)
    rows.push_back(static_cast<std::int64_t>(random() % 40)); // perhaps none
  rows[random() % rows.size()] += 1;
  return rows;
}

constexpr ComputeModel machine{
    .flops_per_second = 1e9, .bytes_per_second = 1e10, .row_tile = 4, .launch = 500};
RanksOptions virtual_ranks(int ranks) {
  return {.ranks = ranks,
          .clock = ClockKind::virtual_time,
          .link = {.bytes_per_second = 2e9, .latency = 3000},
          .machine = machine};
}

// Sums of k products in f32 and P partial sums, and the rounding of the result.
template <class T> double bound(const WholeProduct<T>& w, int ranks) {
  const double eps = std::is_same_v<T, bf16> ? 1.0 / 128 : std::is_same_v<T, double> ? 1e-14 : 1.2e-7;
  return 8 * eps * (std::sqrt(static_cast<double>(w.k)) + ranks) + 1e-30;
}

// All three products of one rank, with the rows that the tests give. Returns c of gather_matmul.
template <class T>
void check_products(Communicator& comm, TensorParallel& tp, const WholeProduct<T>& w, const Matrix<T>& one,
                    Findings& found) {
  Stream stream(comm.device());
  const int r = comm.rank(), ranks = comm.size();
  const Rows own = w.shards.rows(r), columns = Shards::even(w.n, ranks).rows(r),
             depth = Shards::even(w.k, ranks).rows(r);
  std::vector<std::int64_t> rows;
  for (int i = 0; i < ranks; ++i)
    rows.push_back(w.shards.rows(i).count());
  const double most = bound(w, ranks);

  const TensorView<const T, 2> a_rows = w.a.view().slice(0, own.begin, own.end);
  const TensorView<const T, 2> b_columns = w.b.view().slice(1, columns.begin, columns.end);
  const TensorView<const T, 1> bias(w.bias.data() + columns.begin, {columns.count()});
  auto gathered = filled<T>(w.shards.rows(), w.k, -1), c = filled<T>(w.shards.rows(), columns.count(), -1);
  tp.gather_matmul(stream, a_rows, b_columns, c, gathered,
                   {.bias = bias, .whole_columns = w.n, .rows = rows, .tag = "up"});
  stream.synchronize();
  bool right = true;
  for (std::int64_t i = 0; i < w.shards.rows(); ++i)
    for (std::int64_t j = 0; j < columns.count(); ++j)
      right = right && std::memcmp(&c.view()(i, j), &one.view()(i, columns.begin + j), sizeof(T)) == 0;
  found.require(right, "gather_matmul does not have the bits of one rank");
  found.require(std::memcmp(gathered.data(), w.a.data(), static_cast<std::size_t>(w.a.size()) * sizeof(T)) ==
                    0,
                "the gathered rows");

  const TensorView<const T, 2> a_columns = w.a.view().slice(1, depth.begin, depth.end);
  const TensorView<const T, 2> b_rows = w.b.view().slice(0, depth.begin, depth.end);
  const TensorView<const T, 1> all_bias(w.bias.data(), {w.n});
  auto mine = filled<T>(own.count(), w.n, -1), all = filled<T>(w.shards.rows(), w.n, -1);
  const TensorView<const T, 2> own_residual = w.residual.view().slice(0, own.begin, own.end);
  tp.matmul_reduce_scatter(
      stream, a_columns, b_rows, mine,
      {.bias = all_bias, .residual = own_residual, .whole_depth = w.k, .rows = rows, .tag = "down"});
  tp.matmul_all_reduce(
      stream, a_columns, b_rows, all,
      {.bias = all_bias, .residual = w.residual.view(), .whole_depth = w.k, .rows = rows, .tag = "down"});
  stream.synchronize();
  double worst = 0, largest = 1;
  for (std::int64_t i = 0; i < w.shards.rows(); ++i)
    for (std::int64_t j = 0; j < w.n; ++j) {
      const double exact = w.exact(i, j) + static_cast<double>(w.residual.view()(i, j));
      worst = std::max(worst, std::abs(static_cast<double>(all.view()(i, j)) - exact));
      largest = std::max(largest, std::abs(exact));
    }
  found.require(worst <= most * largest, "matmul_all_reduce is wrong by " + std::to_string(worst));
  found.require(mine.size() == 0 || std::memcmp(mine.data(), all.data() + own.begin * w.n,
                                                static_cast<std::size_t>(mine.size()) * sizeof(T)) == 0,
                "matmul_reduce_scatter does not have the bits of matmul_all_reduce");
}

template <class T> Matrix<T> on_one_rank(const WholeProduct<T>& w) {
  Stream stream;
  auto c = Matrix<T>::empty({w.shards.rows(), w.n});
  const TensorView<const T, 1> bias(w.bias.data(), {w.n});
  ops::matmul(stream, w.a, w.b, c, {.bias = bias, .batch_invariant = true});
  stream.synchronize();
  return c;
}

} // namespace

TEMPLATE_TEST_CASE("overlapped products have the bits of one rank, or the error of a sum", "", float, bf16,
                   double) {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int ranks : {1, 2, 3, 4, 8}) {
    // A long K and few columns, for which K is divided, is among them.
    const bool deep = ranks == 3;
    const WholeProduct<TestType> w(random, random_rows(random, ranks),
                                   deep ? 5000 : 1 + static_cast<std::int64_t>(random() % 90),
                                   1 + static_cast<std::int64_t>(random() % (deep ? 60 : 150)));
    const Matrix<TestType> one = on_one_rank(w);
    INFO(ranks << " ranks, " << w.shards.rows() << " x " << w.n << " x " << w.k);
    Findings found;
    run_ranks(virtual_ranks(ranks), [&](Communicator& comm) {
      TensorParallel tp(comm);
      check_products(comm, tp, w, one, found);
    });
    CHECK(found.list() == test::nothing_wrong);
  }
}

TEST_CASE("no schedule, chunking or jitter changes a bit, and the virtual clock shows the forecast's time") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int ranks : {2, 3, 4}) {
    const WholeProduct<float> w(random, random_rows(random, ranks), 40, 48);
    std::vector<std::int64_t> rows;
    for (int i = 0; i < ranks; ++i)
      rows.push_back(w.shards.rows(i).count());
    for (ProductKind kind :
         {ProductKind::gather_matmul, ProductKind::matmul_reduce_scatter, ProductKind::matmul_all_reduce}) {
      std::vector<std::vector<float>> first(static_cast<std::size_t>(ranks));
      const TensorView<const float, 1> gamma(w.bias.data(), {w.n});
      ProductShape shape{kind, w.shards, w.n, w.k};
      shape.norm = kind != ProductKind::gather_matmul && random() % 2 == 0;
      int number = 0;
      for (const Candidate& candidate : candidates_of(shape)) {
        if (++number % 3 != static_cast<int>(random() % 3) && number > 1) continue; // a third of them
        const bool jitter = number % 2 == 0;
        RanksOptions options = virtual_ranks(ranks);
        if (jitter) options.link.jitter = 20000, options.link.seed = random();
        Findings found;
        run_ranks(options, [&](Communicator& comm) {
          Stream stream;
          const auto r = static_cast<std::size_t>(comm.rank());
          const Rows own = w.shards.rows(comm.rank());
          const TensorView<const float, 2> a_rows = w.a.view().slice(0, own.begin, own.end);
          TensorParallel tp(comm, {.force = candidate});
          auto c = filled<float>(kind == ProductKind::matmul_reduce_scatter ? own.count() : w.shards.rows(),
                                 w.n, -1);
          auto gathered = filled<float>(w.shards.rows(), w.k, -1);
          const Nanoseconds began = comm.now();
          Nanoseconds forecast = 0;
          auto normed = filled<float>(c.extent(0), w.n, -1), norm_alone = filled<float>(c.extent(0), w.n, -2);
          ParallelMatmulOptions rest{.rows = rows};
          if (shape.norm) rest.norm = {.gamma = gamma, .y = normed, .eps = 1e-3};
          switch (kind) {
          case ProductKind::gather_matmul:
            forecast = tp.plan_gather_matmul(stream, a_rows, w.b, c, gathered, rest).choice().forecast;
            tp.gather_matmul(stream, a_rows, w.b, c, gathered, rest);
            break;
          case ProductKind::matmul_reduce_scatter:
            forecast = tp.plan_matmul_reduce_scatter(stream, w.a, w.b, c, rest).choice().forecast;
            tp.matmul_reduce_scatter(stream, w.a, w.b, c, rest);
            break;
          case ProductKind::matmul_all_reduce:
            forecast = tp.plan_matmul_all_reduce(stream, w.a, w.b, c, rest).choice().forecast;
            tp.matmul_all_reduce(stream, w.a, w.b, c, rest);
            break;
          }
          const Nanoseconds took = comm.now() - began;
          const std::string what =
              std::string(name_of(kind)) + ", " + candidate.text() + (shape.norm ? ", norm" : "");
          if (shape.norm) {
            ops::rmsnorm(stream, c, gamma, norm_alone, {.eps = 1e-3, .batch_invariant = true});
            stream.synchronize();
            found.require(std::equal(normed.begin(), normed.end(), norm_alone.begin()), what + " is wrong");
          }
          if (first[r].empty())
            first[r].assign(c.begin(), c.end());
          else
            found.require(c.size() == 0 ||
                              std::memcmp(first[r].data(), c.data(), first[r].size() * sizeof(float)) == 0,
                          what + " has other bits");
          std::vector<Nanoseconds> all(static_cast<std::size_t>(ranks));
          const TensorView<Nanoseconds, 1> times(all.data(), {ranks});
          const TensorView<const Nanoseconds, 1> mine(&took, {1});
          comm.all_gather(stream, mine, times);
          if (!jitter)
            found.require(*std::max_element(all.begin(), all.end()) == forecast,
                          what + " takes " + std::to_string(took) + " and not " + std::to_string(forecast));
        });
        CHECK(found.list() == test::nothing_wrong);
      }
    }
  }
}

TEST_CASE("a trace shows transfers that are in flight while chunks are computed") {
  std::mt19937_64 random(1);
  const WholeProduct<float> w(random, {40, 40}, 64, 48);
  const Matrix<float> one = on_one_rank(w);
  Trace trace;
  RanksOptions options = virtual_ranks(2);
  options.trace = &trace;
  Findings found;
  std::string summary;
  run_ranks(options, [&](Communicator& comm) {
    TensorParallel tp(comm);
    check_products(comm, tp, w, one, found);
    if (comm.rank() == 0) summary = tp.summary();
  });
  CHECK(found.list() == test::nothing_wrong);
  CHECK(trace.overlap(0) > 0);
  CHECK(trace.overlap(1) > 0);
  CHECK_THAT(trace.json(),
             Catch::Contains("\"gather_matmul #0 [up] shard 1.0\"") && Catch::Contains("\"ph\": \"X\""));
  CHECK_THAT(summary, Catch::StartsWith("3 of 3 products overlap\n"));
  const std::string picture = trace.svg();
  std::size_t drawn = 0;
  for (std::size_t at = 0; (at = picture.find("<title>", at)) != std::string::npos; ++at)
    ++drawn;
  CHECK(drawn == trace.spans().size());
  CHECK(picture.find("rank 1 computes") != std::string::npos);
  CHECK(picture.find(">down</text>") != std::string::npos); // the legend
  CHECK(Trace().svg().ends_with("</svg>\n"));
}

TEST_CASE("KILN_RANKS_TRACE writes a trace of each run, also of one that fails") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "kiln-ranks-trace";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  setenv("KILN_RANKS_TRACE", (folder / "trace.json").c_str(), 1);
  for (int run = 0; run < 2; ++run)
    CHECK_THROWS_AS(run_ranks(virtual_ranks(2),
                              [&](Communicator& comm) {
                                comm.barrier({.tag = "before"});
                                throw std::runtime_error("a rank fails");
                              }),
                    std::runtime_error);
  unsetenv("KILN_RANKS_TRACE");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    CHECK_THAT(text, Catch::Contains("barrier #0 [before]"));
    ++files;
  }
  CHECK(files == 2);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a thousand seeds of jitter change no bit of an MLP") {
  // Latencies that vary by many times what a chunk takes: what arrives first differs from seed to seed.
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::int64_t rows = 12, width = 8, hidden = 20;
  const auto x = random_matrix<float>(random, rows, width),
             up = random_matrix<float>(random, width, 2 * hidden),
             down = random_matrix<float>(random, hidden, width);
  std::vector<float> first;
  for (int i = 0; i < 1000; ++i) {
    const int ranks = 3;
    RanksOptions options = virtual_ranks(ranks);
    options.link.jitter = 1 + static_cast<Nanoseconds>(random() % 200000), options.link.seed = random();
    std::vector<float> all(static_cast<std::size_t>(rows * width), -1);
    Nanoseconds makespan = 0;
    const auto run = [&] {
      run_ranks(options, [&](Communicator& comm) {
        Stream stream;
        TensorParallel tp(comm, {.force = Candidate{"direct", {2, 1}}});
        ParallelMlp mlp(tp, {.width = width, .hidden = hidden});
        mlp.load_full(stream, up, down);
        const Rows own = Shards::even(rows, ranks).rows(comm.rank());
        const TensorView<float, 2> y(all.data() + own.begin * width, {own.count(), width});
        mlp.forward(stream, rows, x.view().slice(0, own.begin, own.end), y);
        stream.synchronize();
        comm.barrier();
        if (comm.rank() == 0) makespan = comm.now();
      });
    };
    run();
    if (first.empty()) first = all;
    if (std::memcmp(first.data(), all.data(), all.size() * sizeof(float)) != 0) {
      FAIL("seed " << options.link.seed << ", jitter " << options.link.jitter << " gives other bits");
    }
    if (i % 100 == 0) { // the same seed gives the same times
      const Nanoseconds once = makespan;
      run();
      CHECK(makespan == once);
    }
  }
}

TEST_CASE("the chosen schedule hides most of what the best one can hide") {
  for (int ranks : {2, 4, 8})
    for (double ratio : {0.25, 0.5, 1.0, 2.0})
      for (ProductKind kind : {ProductKind::gather_matmul, ProductKind::matmul_reduce_scatter}) {
        const bool gathers = kind == ProductKind::gather_matmul;
        const ProductShape shape{kind, Shards::even(ranks * 1024, ranks), 1024, 1024};
        const double computation = static_cast<double>(
                         ComputeModel{.flops_per_second = 1e12}.product(ranks * 1024, 1024, 1024, 4)),
                     bytes = (ranks - 1) * 1024.0 * 1024 * 4;
        const LinkModel link{.bytes_per_second = bytes / (computation * ratio) * 1e9, .latency = 1000};
        const ComputeModel fast{.flops_per_second = 1e12};
        const Plan plan = plan_by_forecast(shape, link, fast);
        // All even chunkings up to 16 by each schedule.
        Nanoseconds best = plan.options[0].forecast;
        for (const char* name : {"ring", "direct"})
          for (int chunks = 1; chunks <= 16; ++chunks) {
            if (!gathers && std::string(name) == "ring") continue;
            const Schedule s =
                schedule_of(shape, {name, std::vector<int>(static_cast<std::size_t>(chunks), 1)});
            best = std::min(best, forecast(s, link, cost_of(shape, fast, s)).makespan);
          }
        const auto shorter = static_cast<double>(std::min(plan.computation, plan.communication));
        const double possible = static_cast<double>(plan.options[0].forecast - best) / shorter;
        INFO(ranks << " ranks, ratio " << ratio << ", " << plan.explain());
        CHECK(plan.hidden >= 0.95 * possible);
        CHECK(plan.hidden > 0.8);
      }
}

TEST_CASE("no plan is slower than the serial schedule on the shapes that others publish") {
  // Rows, columns and depth of layers of Llama 3 (8B, 70B, 405B), Qwen3-32B and of the reports of slow
  // overlap, on 2, 4 and 8 ranks of an H100-like machine. n and k are of all ranks.
  struct Shape {
    std::int64_t m, n, k;
  };
  const std::vector<Shape> shapes = {
      {64, 14336, 4096},   {256, 14336, 4096},   {1024, 14336, 4096},  {4096, 14336, 4096},
      {8192, 14336, 4096}, {64, 28672, 8192},    {512, 28672, 8192},   {2048, 28672, 8192},
      {8192, 28672, 8192}, {2048, 53248, 16384}, {4096, 53248, 16384}, {1, 4096, 4096},
      {16, 4096, 4096},    {2048, 3584, 8192},   {448, 8192, 8192},    {4096, 4096, 8192},
      {8192, 8192, 28672}, {1024, 25600, 5120},  {4096, 25600, 5120},  {8192, 5120, 25600},
      {1024, 4096, 4096},  {4096, 12288, 4096}};
  const ComputeModel h100{
      .flops_per_second = 700e12, .bytes_per_second = 3e12, .row_tile = 128, .launch = 4000};
  const LinkModel link{.bytes_per_second = 350e9, .latency = 6000};
  int overlapping = 0, count = 0;
  for (const Shape& s : shapes)
    for (int ranks : {2, 4, 8})
      for (ProductKind kind :
           {ProductKind::gather_matmul, ProductKind::matmul_reduce_scatter, ProductKind::matmul_all_reduce}) {
        const bool gathers = kind == ProductKind::gather_matmul;
        const ProductShape shape{kind,
                                 Shards::even(s.m, ranks),
                                 gathers ? s.n / ranks : s.n,
                                 gathers ? s.k : s.k / ranks,
                                 DType::BF16,
                                 DType::BF16,
                                 DType::BF16};
        const Plan plan = plan_by_forecast(shape, link, h100);
        INFO(plan.explain());
        CHECK(plan.choice().forecast <= plan.options[0].forecast);
        overlapping += plan.overlaps(), ++count;
      }
  CHECK(count >= 60);
  CHECK(overlapping > count / 3);
}

TEST_CASE("on the wall clock, plans are measured, and all ranks take the same one") {
  std::mt19937_64 random(2);
  const WholeProduct<float> w(random, {64, 64}, 128, 96);
  const Matrix<float> one = on_one_rank(w);
  Findings found;
  std::vector<std::string> explained(2);
  run_ranks({.ranks = 2, .link = {.bytes_per_second = 1e8, .latency = 20000}}, [&](Communicator& comm) {
    TensorParallel tp(comm);
    check_products(comm, tp, w, one, found);
    for (const auto& entry : tp.plans())
      explained[static_cast<std::size_t>(comm.rank())] += entry.second.choice().candidate.text() + ";";
    const Plan& plan = tp.plans().begin()->second;
    found.require(plan.options[0].measured > 0, "the serial schedule is measured");
    found.require(plan.explain().find("measured") != std::string::npos, "explain() gives measured times");
  });
  CHECK(found.list() == test::nothing_wrong);
  CHECK(explained[0] == explained[1]);
}

TEST_CASE("planning does not change the result, and c may be the residual") {
  for (ClockKind clock : {ClockKind::wall, ClockKind::virtual_time}) {
    Findings found;
    run_ranks({.ranks = 2, .clock = clock}, [&](Communicator& comm) {
      Stream stream;
      TensorParallel tp(comm);
      const auto a = test::full(4, 4, 1), b = test::full(4, 4, 1);
      for (int call = 0; call < 2; ++call) {
        auto all = test::full(4, 4, 100), own = test::full(2, 4, 100);
        tp.matmul_all_reduce(stream, a, b, all, {.residual = all});
        tp.matmul_reduce_scatter(stream, a, b, own, {.residual = own});
        found.require(all.view()(3, 3) == 108 && own.view()(1, 1) == 108, "a sum with its residual");
      }
      const auto error_of = [](const auto& body) {
        try {
          body();
        } catch (const UserError& e) {
          return std::string(e.what());
        }
        return std::string("none");
      };
      auto gathered = test::full(4, 4, 1), d = test::full(4, 4, 1);
      const auto refused = [&](const std::string& text) {
        return text.find("overlaps") != std::string::npos;
      };
      found.require(
          refused(error_of([&] { tp.gather_matmul(stream, d.view().slice(0, 0, 2), b, d, gathered); })),
          "a overlaps c");
      found.require(refused(error_of([&] { tp.matmul_all_reduce(stream, a, d, d); })), "b is c");
    });
    CHECK(found.list() == test::nothing_wrong);
  }
  // A bias on one rank only.
  CHECK_THROWS_WITH(run_ranks({.ranks = 2, .clock = ClockKind::virtual_time},
                              [](Communicator& comm) {
                                Stream stream;
                                TensorParallel tp(comm);
                                const auto a = test::full(4, 4, 1), b = test::full(4, 4, 1);
                                const auto bias = test::full(4, 1);
                                auto c = test::full(4, 4, 0);
                                ParallelMatmulOptions options;
                                if (comm.rank() == 1) options.bias = bias;
                                tp.matmul_all_reduce(stream, a, b, c, options);
                              }),
                    Catch::Contains("with bias"));
}
