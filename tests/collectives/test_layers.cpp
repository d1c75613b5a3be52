// Compares the layers of tensor parallelism on several ranks with double precision and with one rank.
#include "exact_mlp.h"
#include "findings.h"
#include "test_seed.h"

#include <kiln/collectives/attention.h>
#include <kiln/collectives/mlp.h>
#include <kiln/collectives/ranks.h>
#include <kiln/jit/runtime/tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

using namespace kiln;
using namespace kiln::collectives;
using test::error, test::Exact, test::most_error, test::poisoned, test::random_exact, test::tensor_of;
using test::Findings;
using Mlp = test::ExactMlp;

TEST_CASE(
    "a gated MLP and its gradients are right on any number of ranks, with and without sequence parallelism") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto up_to = [&](int n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)) + 1;
  };
  for (int ranks : {1, 2, 3, 4, 8}) {
    const std::int64_t rows = up_to(30), width = up_to(40), hidden = up_to(50); // perhaps fewer than ranks
    const Mlp e(random, rows, width, hidden);
    const auto up = tensor_of(e.up), down = tensor_of(e.down), x = tensor_of(e.x), dy = tensor_of(e.dy);
    for (bool divided : {true, false}) {
      INFO(ranks << " ranks, " << rows << " x " << width << " x " << hidden << (divided ? ", divided" : ""));
      Findings found;
      run_ranks(
          {.ranks = ranks,
           .clock = ClockKind::virtual_time,
           .link = {.bytes_per_second = 1e9, .latency = 100}},
          [&](Communicator& comm) {
            Stream stream;
            TensorParallel tp(comm);
            ParallelMlp mlp(tp, {.width = width, .hidden = hidden, .sequence_parallel = divided});
            mlp.load_full(stream, up, down);
            const Rows own = divided ? Shards::even(rows, ranks).rows(comm.rank()) : Rows{0, rows};
            const auto my_x = x.view().slice(0, own.begin, own.end),
                       my_dy = dy.view().slice(0, own.begin, own.end);
            auto y = poisoned(own.count(), width), dx = poisoned(own.count(), width);
            mlp.forward(stream, rows, my_x, y);
            stream.synchronize();
            const auto check = [&](const char* what, double wrong) {
              found.require(wrong < most_error, std::string(what) + " is wrong by " + std::to_string(wrong));
            };
            check("y", error(y, e.y, own.begin));
            const Rows features = mlp.down().features();
            auto dup = poisoned(width, 2 * features.count()), ddown = poisoned(features.count(), width);
            mlp.backward(stream, my_x, my_dy, dx, {.up = dup, .down = ddown});
            stream.synchronize();
            check("dx", error(dx, e.dx, own.begin));
            check("ddown", error(ddown, e.ddown, features.begin));
            auto gate = poisoned(width, features.count()), rest = poisoned(width, features.count());
            for (std::int64_t i = 0; i < width; ++i)
              for (std::int64_t j = 0; j < features.count(); ++j)
                gate.view()(i, j) = dup.view()(i, j), rest.view()(i, j) = dup.view()(i, features.count() + j);
            check("the gate's gradient", error(gate, e.dup, 0, features.begin));
            check("the gradient of the rest", error(rest, e.dup, 0, hidden + features.begin));

            // Shards can be saved, and loaded by other numbers of ranks.
            auto saved_up = poisoned(width, 2 * hidden), saved_down = poisoned(hidden, width);
            mlp.up().gather_full(stream, saved_up, {});
            mlp.down().gather_full(stream, saved_down, {});
            found.require(std::equal(saved_up.begin(), saved_up.end(), up.begin()), "the saved weight of up");
            found.require(std::equal(saved_down.begin(), saved_down.end(), down.begin()),
                          "the saved weight of down");
          });
      CHECK(found.list() == test::nothing_wrong);
    }
  }
}

TEST_CASE(
    "attention and its gradients are those of one rank, with heads of keys that are divided or repeated") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::int64_t width = 24, heads = 8, kv_heads = 2, size = 16, rows = 10,
                     columns = (heads + 2 * kv_heads) * size;
  const auto qkv = tensor_of(random_exact(random, width, columns)),
             out = tensor_of(random_exact(random, heads * size, width)),
             x = tensor_of(random_exact(random, rows, width)),
             dy = tensor_of(random_exact(random, rows, width));
  Exact y(rows, width), dx(rows, width), dqkv(width, columns), dout(heads * size, width); // of one rank
  const auto keep = [](Exact& e, const Tensor<float, 2>& t) { std::copy(t.begin(), t.end(), e.x.begin()); };
  for (int ranks : {1, 2, 4, 8})
    for (bool divided : {true, false}) {
      INFO(ranks << " ranks" << (divided ? ", divided" : ""));
      Findings found;
      run_ranks(
          {.ranks = ranks,
           .clock = ClockKind::virtual_time,
           .link = {.bytes_per_second = 1e9, .latency = 100}},
          [&](Communicator& comm) {
            Stream stream;
            TensorParallel tp(comm);
            ParallelAttention layer(tp, {.width = width,
                                         .heads = heads,
                                         .kv_heads = kv_heads,
                                         .head_size = size,
                                         .rotary = ops::RotaryOptions{.theta = 100},
                                         .sequence_parallel = divided});
            layer.load_full(stream, qkv, out);
            const Rows own = divided ? Shards::even(rows, ranks).rows(comm.rank()) : Rows{0, rows};
            const auto my_x = x.view().slice(0, own.begin, own.end),
                       my_dy = dy.view().slice(0, own.begin, own.end);
            auto my_y = poisoned(own.count(), width), my_dx = poisoned(own.count(), width);
            const Rows q = layer.qkv().features(0), k = layer.qkv().features(1);
            auto my_dqkv = poisoned(width, q.count() + 2 * k.count()), my_dout = poisoned(q.count(), width);
            layer.forward(stream, {.sequences = 2, .length = rows / 2}, my_x, my_y);
            layer.backward(stream, my_x, my_dy, my_dx, {.qkv = my_dqkv, .out = my_dout});
            stream.synchronize();
            if (ranks == 1) {
              keep(y, my_y), keep(dx, my_dx), keep(dqkv, my_dqkv), keep(dout, my_dout);
              return;
            }
            const auto check = [&](const char* what, double wrong) {
              found.require(wrong < most_error, std::string(what) + " is wrong by " + std::to_string(wrong));
            };
            check("y", error(my_y, y, own.begin));
            check("dx", error(my_dx, dx, own.begin));
            check("dout", error(my_dout, dout, q.begin));
            const auto part = [&](std::int64_t begin, std::int64_t count) {
              auto t = poisoned(width, count);
              for (std::int64_t i = 0; i < width; ++i)
                for (std::int64_t j = 0; j < count; ++j)
                  t.view()(i, j) = my_dqkv.view()(i, begin + j);
              return t;
            };
            check("dq", error(part(0, q.count()), dqkv, 0, q.begin));
            check("dk", error(part(q.count(), k.count()), dqkv, 0, heads * size + k.begin));
            check("dv", error(part(q.count() + k.count(), k.count()), dqkv, 0,
                              (heads + kv_heads) * size + k.begin));
            auto saved = poisoned(width, columns);
            layer.qkv().gather_full(stream, saved, {});
            found.require(std::equal(saved.begin(), saved.end(), qkv.begin()), "the saved weight");
          });
      CHECK(found.list() == test::nothing_wrong);
    }
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    TensorParallel tp(comm);
    CHECK_THROWS_AS(ParallelAttention(tp, {.width = 8, .heads = 3, .kv_heads = 2, .head_size = 4}),
                    UserError);
  });
}

TEST_CASE("linear layers with biases are right, and column-parallel ones have the bits of one rank") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::int64_t rows = 23, in = 37, out = 29;
  const Exact x = random_exact(random, rows, in), w = random_exact(random, in, out),
              b = random_exact(random, 1, out), dy = random_exact(random, rows, out);
  Exact y = x * w;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < out; ++j)
      y(i, j) += b(0, j);
  const Exact dx = dy * w.transposed(), dw = x.transposed() * dy;
  Exact db(1, out);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < out; ++j)
      db(0, j) += dy(i, j);
  const auto tx = tensor_of(x), tw = tensor_of(w), tb = tensor_of(b), tdy = tensor_of(dy);
  const TensorView<const float, 1> bias(tb.data(), {out});
  std::vector<float> one; // the bits of one rank
  for (int ranks : {1, 2, 3, 5}) {
    Findings found;
    std::vector<float> all(static_cast<std::size_t>(rows * out));
    run_ranks(
        {.ranks = ranks, .clock = ClockKind::virtual_time, .link = {.bytes_per_second = 1e9, .latency = 100}},
        [&](Communicator& comm) {
          Stream stream;
          TensorParallel tp(comm);
          const Rows own = Shards::even(rows, ranks).rows(comm.rank());
          const auto check = [&](const char* what, double wrong) {
            found.require(wrong < most_error, std::string(what) + " is wrong by " + std::to_string(wrong));
          };
          ColumnParallelLinear column(tp, {.in = in, .out = out, .bias = true});
          column.load_full(stream, tw, bias);
          const Rows features = column.features();
          auto cy = poisoned(rows, features.count());
          column.forward(stream, tx.view().slice(0, own.begin, own.end), cy);
          stream.synchronize();
          check("y", error(cy, y, 0, features.begin));
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < features.count(); ++j)
              all[static_cast<std::size_t>(i * out + features.begin + j)] = cy.view()(i, j);
          auto cdx = poisoned(own.count(), in), cdw = poisoned(in, features.count());
          auto cdb = test::full(features.count(), 1e30f);
          auto cdy = poisoned(rows, features.count());
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < features.count(); ++j)
              cdy.view()(i, j) = tdy.view()(i, features.begin + j);
          column.backward(stream, tx.view().slice(0, own.begin, own.end), cdy, cdx, cdw, cdb);
          stream.synchronize();
          check("dx", error(cdx, dx, own.begin));
          check("dweight", error(cdw, dw, 0, features.begin));
          for (std::int64_t j = 0; j < features.count(); ++j)
            check("dbias", std::abs(static_cast<double>(cdb.view()(j)) - db(0, features.begin + j)) / 10);

          RowParallelLinear row(tp, {.in = in, .out = out, .bias = true});
          row.load_full(stream, tw, bias);
          const Rows inputs = row.features();
          auto rx = poisoned(rows, inputs.count());
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < inputs.count(); ++j)
              rx.view()(i, j) = tx.view()(i, inputs.begin + j);
          auto ry = poisoned(own.count(), out), rdx = poisoned(rows, inputs.count()),
               rdw = poisoned(inputs.count(), out);
          auto rdb = test::full(out, 1e30f);
          row.forward(stream, rx, ry);
          row.backward(stream, rx, tdy.view().slice(0, own.begin, own.end), rdx, rdw, rdb);
          stream.synchronize();
          check("y of rows", error(ry, y, own.begin));
          check("dx of rows", error(rdx, dx, 0, inputs.begin));
          check("dweight of rows", error(rdw, dw, inputs.begin));
          for (std::int64_t j = 0; j < out; ++j)
            check("dbias of rows", std::abs(static_cast<double>(rdb.view()(j)) - db(0, j)) / 10);
        });
    INFO(ranks << " ranks");
    CHECK(found.list() == test::nothing_wrong);
    if (ranks == 1) one = all;
    CHECK(std::memcmp(one.data(), all.data(), all.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("wrong layers are errors") {
  run_ranks({.ranks = 1}, [](Communicator& comm) {
    TensorParallel tp(comm);
    CHECK_THROWS_AS(ColumnParallelLinear(tp, {.in = 0, .out = 4}), UserError);
    CHECK_THROWS_AS(ColumnParallelLinear(tp, {.in = 4, .out = 5, .parts = {{2}, {2}}}), UserError);
    CHECK_THROWS_AS(RowParallelLinear(tp, {.in = 4, .out = 5, .activation = ops::Activation::relu}),
                    UserError);
    CHECK_THROWS_AS(ColumnParallelLinear(tp, {.in = 4, .out = 4, .dtype = DType::I32}), UserError);
    Stream stream;
    ColumnParallelLinear layer(tp, {.in = 4, .out = 6});
    auto w = Tensor<float, 2>::zeros({4, 5});
    CHECK_THROWS_WITH(layer.load_full(stream, w, {}),
                      Catch::Contains("the weight's columns and the layer's out differ: 5 != 6"));
  });
}

TEST_CASE("layers work on emulated GPUs") {
  std::mt19937_64 random(3);
  const std::int64_t rows = 20, width = 24, hidden = 32;
  const Mlp e(random, rows, width, hidden);
  const auto up = tensor_of(e.up), down = tensor_of(e.down), x = tensor_of(e.x);
  Findings found;
  run_ranks({.ranks = 2,
             .clock = ClockKind::virtual_time,
             .link = {.bytes_per_second = 1e9, .latency = 100},
             .devices = {Device::emulated("sm_80"), Device::emulated("sm_80", {.ordinal = 1})}},
            [&](Communicator& comm) {
              Stream stream(comm.device());
              TensorParallel tp(comm);
              ParallelMlp mlp(tp, {.width = width, .hidden = hidden});
              const auto up_there = up.to(comm.device()), down_there = down.to(comm.device());
              mlp.load_full(stream, up_there, down_there);
              const Rows own = Shards::even(rows, 2).rows(comm.rank());
              auto mine = Tensor<float, 2>::empty({own.count(), width});
              std::copy_n(x.data() + own.begin * width, mine.size(), mine.data());
              const auto on_device = mine.to(comm.device());
              auto y = Tensor<float, 2>::empty(comm.device(), {own.count(), width});
              mlp.forward(stream, rows, on_device, y);
              stream.synchronize();
              found.require(error(y.to(Device::cpu()), e.y, own.begin) < most_error, "y on a GPU");
            });
  CHECK(found.list() == test::nothing_wrong);
}
