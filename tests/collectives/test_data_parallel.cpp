// Tests the gradients of data-parallel replicas: their bits, when they are sent, and together with tensor
// parallelism.
#include "exact_mlp.h"
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/data_parallel.h>
#include <kiln/collectives/gradient_norm.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>
#include <kiln/jit/runtime/tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

using namespace kiln;
using namespace kiln::collectives;
using test::Exact, test::Findings;

namespace {

RanksOptions virtual_ranks(int ranks) {
  return {
      .ranks = ranks, .clock = ClockKind::virtual_time, .link = {.bytes_per_second = 1e9, .latency = 100}};
}

// The contribution of a rank to an element of a gradient in a step.
double value(std::uint64_t seed, int rank, int step, std::size_t gradient, std::int64_t i) {
  std::uint64_t x = seed + static_cast<std::uint64_t>(rank) * 1000003 +
                    static_cast<std::uint64_t>(step) * 10007 + gradient * 101 + static_cast<std::uint64_t>(i);
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
  return static_cast<double>(static_cast<std::int64_t>(x >> 12)) * 0x1p-51 - 1;
}

// Gradients of three dtypes, of which some are next to each other.
class Gradients {
  static std::size_t dtype(std::size_t i) { return i % 5 == 3 ? 1 : i % 5 == 4 ? 2 : 0; }
  template <class F> auto with(std::size_t i, const F& body) {
    return dtype(i) == 0 ? body(floats_) : dtype(i) == 1 ? body(bfloats_) : body(doubles_);
  }

public:
  Gradients(std::uint64_t seed, const std::vector<std::int64_t>& sizes, bool together)
      : seed_(seed), sizes_(sizes) {
    const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    floats_ = Tensor<float, 1>::empty({all + 64});
    bfloats_ = Tensor<bf16, 1>::empty({all + 64});
    doubles_ = Tensor<double, 1>::empty({all + 64});
    std::int64_t at[3] = {};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t& begin = at[dtype(i)];
      if (!together) ++begin; // a gap
      outputs.push_back(with(i, [&](auto& of) {
        using T = std::remove_reference_t<decltype(*of.data())>;
        return ops::Output(TensorView<T, 1>(of.data() + begin, {sizes[i]}));
      }));
      begin += sizes[i];
    }
  }
  void fill(int rank, int step, std::size_t i) {
    with(i, [&](auto& of) {
      using T = std::remove_reference_t<decltype(*of.data())>;
      for (std::int64_t j = 0; j < sizes_[i]; ++j)
        static_cast<T*>(outputs[i].array().data)[j] = T(static_cast<float>(value(seed_, rank, step, i, j)));
      return 0;
    });
  }
  // Whether gradient i has the bits of the sum in the order of ranks, or of the mean.
  bool is_reduced(int ranks, int step, std::size_t i, Reduction reduction) {
    return with(i, [&](auto& of) {
      using T = std::remove_reference_t<decltype(*of.data())>;
      using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
      for (std::int64_t j = 0; j < sizes_[i]; ++j) {
        A sum = 0;
        for (int r = 0; r < ranks; ++r)
          sum += A(T(static_cast<float>(value(seed_, r, step, i, j))));
        if (reduction == Reduction::mean && ranks > 1) sum = sum / A(ranks);
        const T rounded = T(sum);
        if (std::memcmp(&rounded, static_cast<T*>(outputs[i].array().data) + j, sizeof(T)) != 0) return false;
      }
      return true;
    });
  }

  std::vector<ops::Output> outputs;

private:
  std::uint64_t seed_;
  std::vector<std::int64_t> sizes_;
  Tensor<float, 1> floats_;
  Tensor<bf16, 1> bfloats_;
  Tensor<double, 1> doubles_;
};

} // namespace

TEST_CASE("gradients have the bits of a sum in the order of ranks, whatever buckets and orders are") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int ranks : {1, 2, 3, 4, 8})
    for (std::int64_t bytes : {1, 600, 1 << 20}) {
      std::vector<std::int64_t> sizes;
      for (int i = 0; i < 12; ++i)
        sizes.push_back(i == 5 ? 0 : static_cast<std::int64_t>(random() % 150) + 1);
      INFO(ranks << " ranks, buckets of " << bytes << " bytes");
      Findings found;
      RanksOptions options = virtual_ranks(ranks);
      if (bytes == 600) options.clock = ClockKind::wall;
      if (bytes == 1 << 20) options.workspace_bytes = 4096; // less than a bucket needs
      run_ranks(options, [&](Communicator& comm) {
        Stream stream;
        std::mt19937_64 order_of(seed + static_cast<std::uint64_t>(comm.rank()));
        const Reduction reduction = bytes == 600 ? Reduction::sum : Reduction::mean;
        // Some ranks reduce in place, and others copy.
        Gradients gradients(seed, sizes, comm.rank() % 2 == 0);
        GradientReducer reducer(comm, gradients.outputs,
                                {.bucket_bytes = bytes, .first_bucket_bytes = bytes, .reduction = reduction});
        std::vector<std::size_t> order(sizes.size());
        std::iota(order.begin(), order.end(), 0);
        for (int step = 0; step < 3; ++step) {
          std::shuffle(order.begin(), order.end(), order_of);
          for (std::size_t i : order) {
            gradients.fill(comm.rank(), step, i);
            reducer.ready(stream, i);
          }
          reducer.finish(stream);
          stream.synchronize();
          for (std::size_t i = 0; i < sizes.size(); ++i)
            found.require(gradients.is_reduced(ranks, step, i, reduction),
                          "gradient " + std::to_string(i) + " in step " + std::to_string(step));
        }
        if (bytes == 1) {
          for (const auto& bucket : reducer.buckets())
            found.require(bucket.in_place && bucket.bytes > 0, "a gradient alone is reduced in place");
        } else if (bytes == 1 << 20) {
          found.require(reducer.buckets().size() == 3, "a bucket for each dtype");
          for (const auto& bucket : reducer.buckets())
            found.require(bucket.in_place == (comm.rank() % 2 == 0 || ranks == 1), "in place if adjacent");
        }
      });
      CHECK(found.list() == test::nothing_wrong);
    }
}

TEST_CASE("buckets are filled from the last gradient to the first, up to their limits") {
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    auto a = test::full(100, 0), b = test::full(30, 0), c = test::full(20, 0), d = test::full(10, 0);
    auto half = Tensor<bf16, 1>::zeros({8});
    const GradientReducer reducer(comm, {a, b, half, c, d}, {.bucket_bytes = 200, .first_bucket_bytes = 40});
    std::vector<std::vector<std::size_t>> of;
    for (const auto& bucket : reducer.buckets())
      of.push_back(bucket.gradients);
    CHECK(of == std::vector<std::vector<std::size_t>>{{4}, {2}, {1, 3}, {0}});
    CHECK(reducer.buckets()[2].bytes == 200);
    CHECK(reducer.buckets()[3].bytes == 400); // alone
  });
}

TEST_CASE("a bucket is sent while the rest of the backward pass is computed") {
  constexpr std::int64_t rows = 32, width = 64;
  constexpr int layers = 4;
  Trace trace;
  RanksOptions options{.ranks = 2,
                       .clock = ClockKind::virtual_time,
                       .link = {.bytes_per_second = 1e8, .latency = 1000},
                       .machine = {.flops_per_second = 1e9},
                       .trace = &trace};
  Findings found;
  run_ranks(options, [&](Communicator& comm) {
    Stream stream;
    const std::unique_ptr<Communicator> alone = comm.split(comm.rank());
    TensorParallel tp(*alone); // whose products take time on the virtual clock
    const auto xt = test::full(width, rows, 1), dy = test::full(rows, width, 1);
    std::vector<Tensor<float, 2>> dw;
    std::vector<ops::Output> outputs;
    for (int i = 0; i < layers; ++i)
      dw.push_back(test::full(width, width, 0));
    for (auto& gradient : dw)
      outputs.emplace_back(gradient);
    const auto compute = [&](std::size_t i) { tp.matmul_reduce_scatter(stream, xt, dy, dw[i]); };
    const auto time_of = [&](const auto& body) {
      comm.barrier();
      const Nanoseconds began = comm.now();
      body();
      return comm.now() - began;
    };
    const Nanoseconds computation = time_of([&] { compute(0); });
    const Nanoseconds transfer = time_of([&] { comm.all_reduce(stream, dw[0], dw[0]); });
    found.require(transfer > computation / 2 && transfer < computation, "the times are comparable");

    constexpr std::int64_t bytes = width * width * 4;
    GradientReducer reducer(comm, outputs, {.bucket_bytes = bytes, .first_bucket_bytes = bytes});
    if (comm.rank() == 0) trace.clear();
    const Nanoseconds all = time_of([&] {
      for (std::size_t i = layers; i-- > 0;) {
        compute(i);
        reducer.ready(stream, i);
      }
      reducer.finish(stream);
    });
    // Only the last bucket is sent after all computations.
    found.require(all == layers * computation + transfer,
                  std::to_string(all) + " instead of " + std::to_string(layers * computation + transfer));
    found.require(dw[0].data()[0] == rows, "the mean");
  });
  CHECK(found.list() == test::nothing_wrong);
  for (int rank : {0, 1})
    CHECK(trace.overlap(rank) > 0);
  CHECK_THAT(trace.json(), Catch::Contains("[gradients.0]") && Catch::Contains("[gradients.3]"));
}

TEST_CASE("tensor and data parallelism together have the gradients of one rank with the whole batch") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  struct Mesh {
    int tensor, data;
  };
  for (const auto [tensor, data] : {Mesh{2, 2}, {2, 4}, {4, 2}})
    for (bool divided : {true, false}) {
      const auto up_to = [&](int n) {
        return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)) + 1;
      };
      const std::int64_t rows = 16 + up_to(30), width = up_to(40), hidden = 4 + up_to(50);
      INFO(tensor << " x " << data << " ranks, " << rows << " x " << width << " x " << hidden
                  << (divided ? ", divided" : ""));
      const test::ExactMlp e(random, rows, width, hidden);
      double squares = 0;
      for (const Exact* gradient : {&e.dup, &e.ddown})
        for (double g : gradient->x)
          squares += g * g;
      const auto up = tensor_of(e.up), down = tensor_of(e.down), x = tensor_of(e.x), dy = tensor_of(e.dy);
      Findings found;
      RanksOptions options = virtual_ranks(tensor * data);
      options.machine = {.flops_per_second = 1e9};
      run_ranks(options, [&](Communicator& comm) {
        Stream stream;
        // Neighbours divide the weights, and those with the same shard divide the batch.
        const auto shards = comm.split(comm.rank() / tensor), replicas = comm.split(comm.rank() % tensor);
        TensorParallel tp(*shards);
        const Rows batch = Shards::even(rows, data).rows(replicas->rank());
        Rows own = batch;
        if (divided) {
          const Rows part = Shards::even(batch.count(), tensor).rows(shards->rank());
          own = {batch.begin + part.begin, batch.begin + part.end};
        }
        const auto my_x = x.view().slice(0, own.begin, own.end),
                   my_dy = dy.view().slice(0, own.begin, own.end);
        // The gradients of one layer are reduced over the replicas while the other one's products exchange
        // data between the shards.
        std::vector<std::unique_ptr<ParallelMlp>> layers;
        std::vector<Tensor<float, 2>> gradients;
        for (int layer = 0; layer < 2; ++layer) {
          layers.push_back(std::make_unique<ParallelMlp>(
              tp, MlpShape{.width = width, .hidden = hidden, .sequence_parallel = divided}));
          layers.back()->load_full(stream, up, down);
          const std::int64_t features = layers.back()->down().features().count();
          gradients.push_back(test::poisoned(width, 2 * features));
          gradients.push_back(test::poisoned(features, width));
        }
        auto y = test::poisoned(own.count(), width), dx = test::poisoned(own.count(), width);
        GradientReducer reducer(*replicas, {gradients.begin(), gradients.end()},
                                {.bucket_bytes = 256,
                                 .first_bucket_bytes = 256,
                                 .reduction = Reduction::sum}); // the loss is a sum over the batch
        for (auto& layer : layers)
          layer->forward(stream, batch.count(), my_x, y);
        for (std::size_t layer = layers.size(); layer-- > 0;) {
          layers[layer]->backward(stream, my_x, my_dy, dx,
                                  {.up = gradients[2 * layer], .down = gradients[2 * layer + 1]});
          reducer.ready(stream, 2 * layer + 1);
          reducer.ready(stream, 2 * layer);
        }
        reducer.finish(stream);
        stream.synchronize();
        const auto check = [&](const char* what, double wrong) {
          found.require(wrong < test::most_error,
                        std::string(what) + " is wrong by " + std::to_string(wrong));
        };
        check("y", error(y, e.y, own.begin));
        check("dx", error(dx, e.dx, own.begin));
        const Rows features = layers[0]->down().features();
        auto gate = test::poisoned(width, features.count()), rest = test::poisoned(width, features.count());
        for (std::size_t layer = 0; layer < layers.size(); ++layer) {
          const Tensor<float, 2>& dup = gradients[2 * layer];
          for (std::int64_t i = 0; i < width; ++i)
            for (std::int64_t j = 0; j < features.count(); ++j)
              gate.view()(i, j) = dup.view()(i, j), rest.view()(i, j) = dup.view()(i, features.count() + j);
          check("the gate's gradient", error(gate, e.dup, 0, features.begin));
          check("the gradient of the rest", error(rest, e.dup, 0, hidden + features.begin));
          check("ddown", error(gradients[2 * layer + 1], e.ddown, features.begin));
        }
        const double norm = clip_gradient_norm(stream, *shards, {{gradients[0]}, {gradients[1]}}, 1e-3);
        check("the norm", std::abs(norm / std::sqrt(squares) - 1));
        for (const auto& gradient : gradients)
          replicas->check_replicas(stream, gradient);
      });
      CHECK(found.list() == test::nothing_wrong);
    }
}

TEST_CASE("gradients that are ready twice or never are errors, and the step goes on") {
  Findings found;
  run_ranks(virtual_ranks(2), [&](Communicator& comm) {
    Stream stream;
    auto a = test::full(3, 1), b = test::full(5, 2), c = test::full(2, 3);
    GradientReducer reducer(comm, {a, b, c}, {.first_bucket_bytes = 4});
    const auto says = [&](const auto& body, const std::string& text) {
      std::string what = "nothing";
      try {
        body();
      } catch (const UserError& e) {
        what = e.what();
      }
      found.require(what.find(text) != what.npos, what + " instead of " + text);
    };
    reducer.ready(stream, 2);
    says([&] { reducer.ready(stream, 2); },
         "GradientReducer::ready: gradient 2 is ready for the second time");
    says([&] { reducer.ready(stream, 3); }, "GradientReducer::ready: there is no gradient 3; there are 3");
    says([&] { reducer.finish(stream); }, "gradient 0 and 1 more were not ready in this step");
    reducer.ready(stream, 0);
    says([&] { reducer.finish(stream); }, "gradient 1 was not ready in this step; call ready for every");
    b.fill(comm.rank() == 0 ? 4.0f : 6.0f);
    reducer.ready(stream, 1);
    reducer.finish(stream);
    stream.synchronize();
    found.require(b.data()[4] == 5 && c.data()[1] == 3, "the means");
  });
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("if a rank fails in its backward pass, the others do not wait for its gradients") {
  Findings found;
  const auto body = [&](Communicator& comm) {
    Stream stream;
    auto a = test::full(3, 1), b = test::full(5, 2);
    GradientReducer reducer(comm, {a, b}, {.bucket_bytes = 1, .first_bucket_bytes = 1});
    reducer.ready(stream, 1);
    if (comm.rank() == 1) throw std::runtime_error("no memory for the next layer");
    reducer.ready(stream, 0);
    try {
      reducer.finish(stream);
      found.require(false, "finish must throw");
    } catch (const CommError& e) {
      found.require(e.failed_rank() == 1, e.what());
    }
  };
  CHECK_THROWS_WITH(run_ranks(virtual_ranks(2), body), Catch::Contains("no memory for the next layer"));
  CHECK(found.list() == test::nothing_wrong);
}

TEST_CASE("gradients that cannot be reduced, or differ between ranks, are errors") {
  const auto says = [](const auto& gradients_of, const GradientReducerOptions& options,
                       const std::string& text) {
    CHECK_THROWS_WITH(run_ranks(virtual_ranks(2),
                                [&](Communicator& comm) {
                                  auto a = test::full(4, 4, 0), b = test::full(4, 4, 0);
                                  GradientReducerOptions o = options;
                                  if (comm.rank() == 1 && o.bucket_bytes == 7) o.bucket_bytes = 8;
                                  const GradientReducer reducer(comm, gradients_of(comm, a, b), o);
                                }),
                      Catch::Contains("GradientReducer: " + text));
  };
  using List = std::vector<ops::Output>;
  using Matrix = Tensor<float, 2>;
  auto integers = Tensor<std::int32_t, 1>::zeros({4});
  auto half = Tensor<bf16, 1>::zeros({16});
  const auto both = [](Communicator&, Matrix& a, Matrix& b) { return List{a, b}; };
  says([&](Communicator&, Matrix& a, Matrix&) { return List{a, integers}; }, {},
       "gradient 1 is of i32; gradients are tensors of floats");
  says([](Communicator&, Matrix& a, Matrix&) { return List{a.view().slice(1, 0, 2)}; }, {},
       "gradient 0 is not contiguous");
  says([](Communicator&, Matrix& a, Matrix& b) { return List{a, b, a.view().slice(0, 1, 2)}; }, {},
       "gradients 0 and 2 overlap");
  says([](Communicator&, Matrix& a, Matrix&) { return List{a, {}}; }, {}, "gradient 1 is not given");
  says(both, {.bucket_bytes = 0}, "bucket_bytes and first_bucket_bytes are not both positive");
  says(both, {.reduction = Reduction::max}, "gradients have no max; pass the mean or the sum");
  says(both, {.bucket_bytes = 7}, "bucket_bytes differs between ranks: 7 on rank 0 and 8 on rank 1");
  says([](Communicator& comm, Matrix& a, Matrix& b) { return comm.rank() == 0 ? List{a} : List{a, b}; }, {},
       "the number of gradients differs between ranks: 1 on rank 0 and 2 on rank 1");
  says(
      [&](Communicator& comm, Matrix& a, Matrix& b) { return comm.rank() == 0 ? List{a, b} : List{a, half}; },
      {}, "gradient 1 differs between ranks: 16 elements of f32 on rank 0 and 16 elements of bf16 on rank 1");
}
