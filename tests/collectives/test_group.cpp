// Tests ranks in one process: a layer that gathers its input, and what happens if a rank fails.
#include "test_seed.h"

#include <kiln/collectives/group.h>
#include <kiln/jit/runtime/stream.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/matmul.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <random>

using namespace kiln;
using namespace kiln::collectives;

namespace {

using Matrix = Tensor<float, 2>;

// y = x w, where each rank has some rows of x and some columns of w, and gets all rows of its columns of y.
class ColumnParallel {
public:
  ColumnParallel(std::mt19937_64& random, std::vector<std::int64_t> rows, std::int64_t k, std::int64_t n)
      : rows_(std::move(rows)), k_(k), n_(n) {
    for (std::int64_t r : rows_)
      first_.push_back(m_), m_ += r;
    x_ = Matrix::empty({m_, k_}), w_ = Matrix::empty({k_, n_ * ranks()}),
    y_ = Matrix::empty({m_, n_ * ranks()});
    std::normal_distribution<float> normal;
    for (Matrix* t : {&x_, &w_})
      for (float& v : *t)
        v = normal(random);
    Stream stream;
    ops::matmul(stream, x_, w_, y_, {.batch_invariant = true});
    stream.synchronize();
  }

  int ranks() const { return static_cast<int>(rows_.size()); }
  Shards shards() const { return {rows_, k_ * static_cast<std::int64_t>(sizeof(float))}; }

  // One rank's call. Returns whether its columns of y have the bits of the whole product.
  class Rank {
  public:
    Rank(const ColumnParallel& of, const Schedule& schedule, int rank)
        : of_(of), schedule_(schedule), rank_(rank), gathered_(Matrix::empty({of.m_, of.k_})),
          y_(Matrix::empty({of.m_, of.n_})) {
      gathered_.fill(-1), y_.fill(-1);
    }
    RankPart part() {
      return {[this](Chunk chunk) -> void* { return at(chunk); },
              [this](const Step& step) {
                const auto [begin, end] = range(step.chunk);
                const TensorView<const float, 2> in(at(step.chunk), {end - begin, of_.k_});
                const TensorView<float, 2> out = y_.view().slice(0, begin, end);
                ops::matmul(stream_, in, of_.w_.view().slice(1, rank_ * of_.n_, (rank_ + 1) * of_.n_), out,
                            {.batch_invariant = true});
                stream_.synchronize();
              }};
    }
    bool is_right() const {
      for (std::int64_t i = 0; i < of_.m_; ++i)
        if (std::memcmp(&y_.view()(i, 0), &of_.y_.view()(i, rank_ * of_.n_),
                        static_cast<std::size_t>(of_.n_) * sizeof(float)) != 0)
          return false;
      return true;
    }
    bool is_untouched(int owner) const { // what the owner sends
      for (std::int64_t i = 0; i < of_.rows_[static_cast<std::size_t>(owner)]; ++i)
        for (std::int64_t j = 0; j < of_.k_; ++j)
          if (gathered_.view()(of_.first_[static_cast<std::size_t>(owner)] + i, j) != -1) return false;
      return true;
    }

  private:
    std::pair<std::int64_t, std::int64_t> range(Chunk chunk) const {
      const std::int64_t first = of_.first_[static_cast<std::size_t>(chunk.owner)],
                         rows = of_.rows_[static_cast<std::size_t>(chunk.owner)];
      return {first + rows * chunk.index / schedule_.chunks,
              first + rows * (chunk.index + 1) / schedule_.chunks};
    }
    float* at(Chunk chunk) {
      float* const from = chunk.owner == rank_ ? const_cast<float*>(of_.x_.data()) : gathered_.data();
      return from + range(chunk).first * of_.k_;
    }

    const ColumnParallel& of_;
    const Schedule& schedule_;
    int rank_;
    Stream stream_;
    Matrix gathered_, y_;
  };

private:
  std::vector<std::int64_t> rows_, first_;
  std::int64_t m_ = 0, k_, n_;
  Matrix x_, w_, y_;
};

Schedule schedule_of(int kind, const Shards& shards, int chunks) {
  return kind == 0   ? serial_gather(shards)
         : kind == 1 ? ring_gather(shards, chunks)
                     : direct_gather(shards, chunks);
}
StepCost cost_of(const Shards& shards, const Schedule& schedule) {
  return [&shards, chunks = schedule.chunks](const Step& s) { return shards.rows(s.chunk, chunks) * 200; };
}
std::vector<std::int64_t> random_rows(std::mt19937_64& random, int ranks) {
  std::vector<std::int64_t> rows;
  for (int i = 0; i < ranks; ++i)
    rows.push_back(static_cast<std::int64_t>(random() % 40)); // perhaps none
  if (rows[0] == 0) rows[0] = 1;
  return rows;
}

} // namespace

TEST_CASE("a column-parallel product has the bits of one rank, and takes the forecast's time") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int ranks : {1, 2, 3, 4, 8}) {
    const ColumnParallel layer(random, random_rows(random, ranks), 33, 24);
    const Shards shards = layer.shards();
    for (int kind : {0, 1, 2}) {
      const int chunks = static_cast<int>(1 + random() % 5);
      const Schedule schedule = schedule_of(kind, shards, chunks);
      INFO(ranks << " ranks, " << schedule.name << ", " << chunks << " chunks");
      const LinkModel link{.bytes_per_second = 2e9, .latency = 3000};
      Group group({.ranks = ranks, .clock = ClockKind::virtual_time, .link = link});
      std::vector<char> right(static_cast<std::size_t>(ranks));
      group.run([&](int rank) {
        ColumnParallel::Rank own(layer, schedule, rank);
        const RankPart part = own.part();
        group.execute(rank, {"column_parallel", "test"}, schedule, part, cost_of(shards, schedule));
        right[static_cast<std::size_t>(rank)] = own.is_right();
      });
      CHECK(right == std::vector<char>(static_cast<std::size_t>(ranks), 1));
      CHECK(group.timeline().now() == forecast(schedule, link, cost_of(shards, schedule)).makespan);
    }
  }
}

TEST_CASE("no jitter of the link changes a bit, on either clock") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const ColumnParallel layer(random, {20, 7, 30}, 33, 24);
  const Shards shards = layer.shards();
  for (int round = 0; round < 60; ++round) {
    const ClockKind clock = round % 6 ? ClockKind::virtual_time : ClockKind::wall;
    const Schedule schedule = schedule_of(1 + round % 2, shards, 1 + round % 4);
    Group group({.ranks = 3,
                 .clock = clock,
                 .link = {.bytes_per_second = 1e9, .latency = 1000, .jitter = 100000, .seed = random()}});
    std::atomic<int> right{0};
    group.run([&](int rank) {
      ColumnParallel::Rank own(layer, schedule, rank);
      const RankPart part = own.part();
      for (int call = 0; call < 3; ++call)
        group.execute(rank, {"column_parallel", "test"}, schedule, part, cost_of(shards, schedule));
      right += own.is_right();
    });
    CHECK(right == 3);
  }
}

namespace {

using Errors = std::vector<std::optional<CommError>>;

// Calls body(rank) on all ranks, of which one must fail, and returns their errors.
template <class F> Errors errors_of(Group& group, const F& body) {
  Errors errors(static_cast<std::size_t>(group.size()));
  CHECK_THROWS(group.run([&](int rank) {
    try {
      body(rank);
    } catch (const CommError& e) {
      errors[static_cast<std::size_t>(rank)] = e;
      throw;
    }
  }));
  return errors;
}

// One rank's call of the layer under a name, after `change` to its part.
void call(
    Group& group, const ColumnParallel& layer, const Schedule& schedule, int rank,
    const std::string& collective = "column_parallel",
    const std::function<void(RankPart&)>& change = [](RankPart&) {}) {
  const Shards shards = layer.shards();
  ColumnParallel::Rank own(layer, schedule, rank);
  RankPart part = own.part();
  change(part);
  group.execute(rank, {collective, "test"}, schedule, part, cost_of(shards, schedule));
}

} // namespace

TEST_CASE("if a rank throws at any step, the others get an error that names it") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const ColumnParallel layer(random, {6, 5, 7}, 9, 8);
  const Shards shards = layer.shards();
  for (int kind : {0, 1, 2})
    for (int guilty : {0, 1, 2})
      for (int at = 0; at < 3; ++at) {
        const Schedule schedule = schedule_of(kind, shards, 2);
        Group group({.ranks = 3,
                     .clock = ClockKind::virtual_time,
                     .link = {.bytes_per_second = 1e9, .latency = 100}});
        INFO(schedule.name << ", rank " << guilty << " throws in its computation " << at);
        const Errors errors = errors_of(group, [&](int rank) {
          call(group, layer, schedule, rank, "column_parallel", [&](RankPart& part) {
            if (rank != guilty) return;
            part.compute = [compute = part.compute, at, n = 0](const Step& step) mutable {
              if (n++ == at) throw std::runtime_error("out of paper");
              compute(step);
            };
          });
        });
        for (int rank = 0; rank < 3; ++rank) {
          const auto& error = errors[static_cast<std::size_t>(rank)];
          if (rank == guilty) continue; // it threw its own exception
          if (!error) continue;         // it had all that it needs
          CHECK(error->guilty_rank() == guilty);
          CHECK_THAT(error->what(),
                     Catch::Contains("column_parallel #0 [test]") && Catch::Contains("out of paper"));
        }
      }
}

TEST_CASE("if a rank ends without a call, the others get an error, and what it did not send is not written") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const ColumnParallel layer(random, {6, 5, 7}, 9, 8);
  const Shards shards = layer.shards();
  const Schedule schedule = ring_gather(shards, 2);
  for (const ClockKind clock : {ClockKind::virtual_time, ClockKind::wall}) {
    Group group({.ranks = 3, .clock = clock, .link = {.bytes_per_second = 1e9, .latency = 100}});
    std::atomic<int> untouched{0};
    const Errors errors = errors_of(group, [&](int rank) {
      if (rank == 1) return;
      ColumnParallel::Rank own(layer, schedule, rank);
      const RankPart part = own.part();
      try {
        group.execute(rank, {"column_parallel", "test"}, schedule, part, cost_of(shards, schedule));
      } catch (const CommError&) {
        untouched += own.is_untouched(1);
        throw;
      }
    });
    for (std::size_t rank : {0, 2}) {
      REQUIRE(errors[rank]);
      CHECK(errors[rank]->guilty_rank() == 1);
    }
    CHECK(untouched == 2);
  }
}

TEST_CASE("a rank that makes another call is an error with both calls") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const ColumnParallel layer(random, {6, 5}, 9, 8);
  const Schedule schedule = ring_gather(layer.shards(), 2);
  Group group({.ranks = 2, .clock = ClockKind::virtual_time});
  const Errors errors = errors_of(group, [&](int rank) {
    call(group, layer, schedule, rank, rank == 0 ? "column_parallel" : "row_parallel");
  });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK_THAT(error->what(),
               Catch::Contains("row_parallel #0 [test]") && Catch::Contains("column_parallel #0 [test]"));
  }
}

TEST_CASE("on the wall clock, a rank that does not come is an error at the deadline") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const ColumnParallel layer(random, {6, 5}, 9, 8);
  const Schedule schedule = ring_gather(layer.shards(), 2);
  constexpr Nanoseconds deadline = 50'000'000;
  Group group({.ranks = 2, .deadline = deadline});
  std::atomic<bool> ended{false};
  const Errors errors = errors_of(group, [&](int rank) {
    if (rank == 1) {
      while (!ended)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    try {
      call(group, layer, schedule, rank);
    } catch (const CommError&) {
      ended = true;
      throw;
    }
  });
  const auto& error = errors[0];
  REQUIRE(error);
  CHECK(error->guilty_rank() == 1);
  CHECK(error->elapsed() >= deadline);
  CHECK_THAT(error->what(), Catch::Contains("rank 1 has not begun this call"));
}
