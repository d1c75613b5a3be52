// Compares norms of gradients that are divided among ranks with double precision, and tests clipping.
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/data_parallel.h>
#include <kiln/collectives/gradient_norm.h>
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/schedule/shards.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/jit/runtime/tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::Findings, test::random_matrix;

namespace {

RanksOptions virtual_ranks(int ranks) {
  return {
      .ranks = ranks, .clock = ClockKind::virtual_time, .link = {.bytes_per_second = 1e9, .latency = 100}};
}

template <class T> Tensor<T, 2> copy_of(const Tensor<T, 2>& t) {
  auto copy = Tensor<T, 2>::empty({t.extent(0), t.extent(1)});
  std::copy(t.begin(), t.end(), copy.begin());
  return copy;
}
template <class T> double squares_of(const Tensor<T, 2>& t) {
  double sum = 0;
  for (const T& x : t)
    sum += static_cast<double>(x) * static_cast<double>(x);
  return sum;
}

} // namespace

TEST_CASE("the norm over shards counts each parameter once, and has the same bits on all ranks") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  // Divided by columns, by rows, on all ranks, and on half of the ranks each (if there are several).
  const auto up = random_matrix<float>(random, 70, 1100), bias = random_matrix<float>(random, 1, 37);
  const auto down = random_matrix<bf16>(random, 301, 90);
  const auto keys = random_matrix<double>(random, 33, 2 * 24);
  const double exact = std::sqrt(squares_of(up) + squares_of(bias) + squares_of(down) + squares_of(keys));
  for (int ranks : {1, 2, 3, 4, 8}) {
    INFO(ranks << " ranks");
    Findings found;
    std::vector<double> norms(static_cast<std::size_t>(ranks));
    run_ranks(virtual_ranks(ranks), [&](Communicator& comm) {
      Stream stream;
      const int r = comm.rank();
      // Parts of copies, whose rows have gaps between them.
      auto my_up = copy_of(up), my_bias = copy_of(bias);
      auto my_down = copy_of(down);
      auto my_keys = copy_of(keys);
      const Rows columns = Shards::even(1100, ranks).rows(r), rows = Shards::even(301, ranks).rows(r);
      const bool halves = ranks % 2 == 0;
      const std::int64_t half = r * 2 / ranks;
      const std::vector<GradientShard> gradients = {
          {my_up.view().slice(1, columns.begin, columns.end)},
          {my_down.view().slice(0, rows.begin, rows.end)},
          {my_bias, ranks},
          {halves ? my_keys.view().slice(1, half * 24, half * 24 + 24) : my_keys.view(),
           halves ? ranks / 2 : ranks}};
      const double norm = gradient_norm(stream, comm, gradients);
      norms[static_cast<std::size_t>(r)] = norm;
      found.require(std::abs(norm / exact - 1) < 1e-13,
                    "the norm is wrong by " + std::to_string(norm / exact - 1));
      found.require(clip_gradient_norm(stream, comm, gradients, norm) == norm, "a norm at the limit");
      stream.synchronize();
      found.require(std::memcmp(my_up.data(), up.data(), sizeof(float) * 70 * 1100) == 0,
                    "nothing is clipped");
      const double max_norm = norm / 3;
      found.require(clip_gradient_norm(stream, comm, gradients, max_norm) == norm, "the norm before");
      stream.synchronize();
      const double factor = max_norm / norm;
      for (std::int64_t i = 0; i < 70; ++i)
        for (std::int64_t j = 0; j < 1100; ++j) {
          const float x = up.view()(i, j);
          found.require(my_up.view()(i, j) ==
                            (j >= columns.begin && j < columns.end ? x * static_cast<float>(factor) : x),
                        "an element of f32");
        }
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        for (std::int64_t j = 0; j < 90; ++j)
          found.require(static_cast<float>(my_down.view()(i, j)) ==
                            static_cast<float>(
                                bf16(static_cast<float>(down.view()(i, j)) * static_cast<float>(factor))),
                        "an element of bf16");
      found.require(my_keys.view()(3, half * 24) == keys.view()(3, half * 24) * factor, "an element of f64");
      const double after = gradient_norm(stream, comm, gradients);
      found.require(std::abs(after / max_norm - 1) < 1e-3, "the norm after clipping");
    });
    CHECK(found.list() == test::nothing_wrong);
    for (double norm : norms)
      CHECK(std::memcmp(&norm, norms.data(), sizeof norm) == 0);
  }
}

TEST_CASE("the norm does not depend on the number of threads") {
  std::mt19937_64 random(1);
  auto flat = random_matrix<float>(random, 1, 300'001);
  auto wide = random_matrix<float>(random, 3000, 70);
  run_ranks({.ranks = 1}, [&](Communicator& comm) {
    std::vector<double> norms;
    for (int threads : {1, 2, 3, 5}) {
      ThreadPool pool(threads, Pinning::Off);
      const PoolScope scope(pool);
      Stream stream;
      norms.push_back(gradient_norm(stream, comm, {{flat}, {wide.view().slice(1, 0, 69)}}));
    }
    for (double norm : norms)
      CHECK(norm == norms[0]);
    Stream stream;
    CHECK(gradient_norm(stream, comm, {}) == 0);
  });
}

TEST_CASE("gradients on emulated GPUs are reduced, measured and clipped") {
  Findings found;
  RanksOptions options = virtual_ranks(2);
  options.devices = {Device::emulated("sm_80"), Device::emulated("sm_80", {.ordinal = 1})};
  run_ranks(options, [&](Communicator& comm) {
    Stream stream(comm.device());
    const float rank = static_cast<float>(comm.rank());
    const auto ones = test::full(3, 40, 1 + rank);
    const auto twos = test::full(50, 2 + rank);
    auto a = ones.to(comm.device());
    auto b = twos.to(comm.device());
    GradientReducer reducer(comm, {a, b}); // one bucket, for which they are copied
    reducer.ready(stream, 0);
    reducer.ready(stream, 1);
    reducer.finish(stream);
    const std::vector<GradientShard> gradients = {{a.view().slice(1, 0, 30)}, {b, 2}};
    const double exact = std::sqrt(2 * 90 * 1.5 * 1.5 + 50 * 2.5 * 2.5);
    const double norm = clip_gradient_norm(stream, comm, gradients, exact / 2);
    stream.synchronize();
    found.require(std::abs(norm / exact - 1) < 1e-12, "the norm");
    const auto clipped = a.to(Device::cpu());
    found.require(std::abs(clipped.view()(2, 29) - 0.75f) < 1e-6 && clipped.view()(2, 30) == 1.5f,
                  "clipping");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("norms that f32 cannot hold are right, and infinite ones are not clipped") {
  Findings found;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  run_ranks(virtual_ranks(2), [&](Communicator& comm) {
    Stream stream;
    auto large = test::full(9, 1e30f), small = test::full(4, 1e-30f);
    found.require(std::abs(gradient_norm(stream, comm, {{large}}) / (std::sqrt(18) * 1e30) - 1) < 1e-6,
                  "large");
    found.require(std::abs(gradient_norm(stream, comm, {{small}}) / (std::sqrt(8) * 1e-30) - 1) < 1e-6,
                  "small");
    for (float x : {infinity, nan}) {
      auto g = test::full(5, 3);
      if (comm.rank() == 1) g.data()[2] = x;
      const double norm = clip_gradient_norm(stream, comm, {{g}}, 1);
      stream.synchronize();
      found.require(!std::isfinite(norm) && g.data()[0] == 3, "gradients are as before");
      std::string what;
      try {
        clip_gradient_norm(stream, comm, {{g}}, 1, {.error_if_nonfinite = true});
      } catch (const UserError& e) {
        what = e.what();
      }
      found.require(what.find("clip_gradient_norm: the norm of the gradients is infinite or NaN") !=
                        what.npos,
                    "an error on all ranks: " + what);
    }
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("gradients without a norm are errors") {
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    Stream stream;
    auto g = test::full(4, 6, 1);
    auto integers = Tensor<std::int32_t, 1>::zeros({4});
    const auto says = [&](const std::vector<GradientShard>& gradients, double max_norm, const char* text) {
      CHECK_THROWS_WITH(clip_gradient_norm(stream, comm, gradients, max_norm), Catch::Contains(text));
    };
    says({{g}}, -1, "clip_gradient_norm: max_norm is negative");
    says({{g, 2}}, 1, "clip_gradient_norm: gradients[0].copies is not between 1 and the number of ranks");
    says({{g}, {g, 0}}, 1, "gradients[1].copies is not between");
    says({{}}, 1, "gradients[0] is not given");
    says({{integers}}, 1, "gradients[0]");
    says({{g.view().permute({1, 0})}}, 1, "neither contiguous nor a matrix whose rows are contiguous");
  });
}
