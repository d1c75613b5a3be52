// Tests that ops launch with the configs that the tuner knows.
#include "autotune/own_cache.h"
#include "test_seed.h"

#include <kiln/autotune/random.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/softmax.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <random>

using namespace kiln;

namespace {

// Publishes a config as the best of the problem, as a tuning run would.
void publish_best(const char* kernel, const std::string& shape, const char* config) {
  const tune::Task task = tune::make_task(*tune::find_tunable(kernel), "f32", shape, Device::cpu());
  tune::Record record;
  record.key = std::make_shared<const tune::RecordKey>(
      tune::make_key(*task.canonical(), task.space, task.recorded_problem(), task.device));
  record.config = config;
  record.result.seconds = 1e-6;
  CHECK(tune::Database::standard().publish(record));
}

Tensor<float, 2> random_matrix(std::mt19937_64& random, std::int64_t m, std::int64_t n) {
  std::normal_distribution<float> normal;
  auto x = Tensor<float, 2>::empty({m, n});
  for (float& v : x)
    v = normal(random);
  return x;
}

} // namespace

TEST_CASE("a product uses the tuner's config for its sizes and layouts, once there is one") {
  const OwnCache cache;
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Stream stream;
  const auto a = random_matrix(random, 96, 160), b = random_matrix(random, 160, 64);
  auto c = Tensor<float, 2>::empty({96, 64});
  const TensorView<const float, 2> left = a, right = b;
  const TensorView<float, 2> out = c;
  auto known = [&](TensorView<const float, 2> second) {
    const ops::Input factors[] = {left, second};
    const ops::Output product = out;
    return ops::detail::known_config("matmul", stream, {96, 64, 160},
                                     {&factors[0].array(), &factors[1].array(), &product.array()});
  };
  CHECK_FALSE(known(right));
  publish_best("matmul", "96x64x160", "BM=16,BN=32,BK=32");
  REQUIRE(known(right));
  CHECK(*known(right) == Config::parse("BM=16,BN=32,BK=32"));

  const auto transposed = random_matrix(random, 64, 160);
  CHECK_FALSE(known(TensorView<const float, 2>(transposed).transpose())); // another layout has another key

  ops::matmul(stream, a, b, c);
  stream.synchronize();
  double worst = 0;
  for (std::int64_t m = 0; m < 96; ++m)
    for (std::int64_t n = 0; n < 64; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < 160; ++k)
        sum += static_cast<double>(left(m, k)) * right(k, n);
      worst = std::max(worst, std::abs(sum - out(m, n)));
    }
  CHECK(worst < 1e-4);
}

TEST_CASE("large products are bitwise equal for all tiles of a deterministic search") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (int round = 0; round < 6; ++round) {
    // m is a multiple of 32 plus up to five rows. A product of only those rows would sum in another order.
    const auto m = static_cast<std::int64_t>(64 + 32 * (random() % 8) + random() % 6),
               n = static_cast<std::int64_t>(64 + random() % 300),
               k = static_cast<std::int64_t>(1 + random() % 1500);
    const std::string shape = fmt::format("{}x{}x{}", m, n, k);
    tune::Task task = tune::make_task(*tune::find_tunable("matmul"), "f32", shape, Device::cpu());
    task.deterministic = true;
    tune::BoundSpace space = task.bound_space();
    CHECK(space.size() > 10);
    const auto a = random_matrix(random, m, k), b = random_matrix(random, k, n),
               b_columns = random_matrix(random, n, k);
    const TensorView<const float, 2> right =
        round % 2 ? TensorView<const float, 2>(b_columns).transpose() : TensorView<const float, 2>(b);
    auto first = Tensor<float, 2>::empty({m, n}), c = Tensor<float, 2>::empty({m, n});
    const auto multiply = [&](const Config& config, Tensor<float, 2>& out) {
      ops::detail::matmul_kernel.launch(stream, config, {},
                                        {ops::Input(a), ops::Input(right), ops::Output(out)});
    };
    multiply(space.config(space.seeds().front()), first);
    tune::Random draw(seed);
    for (int i = 0; i < 8; ++i) {
      const Config config = space.config(*space.sample(draw));
      multiply(config, c);
      stream.synchronize();
      INFO(shape << " {" << config.to_string() << "}");
      CHECK(std::memcmp(first.data(), c.data(), static_cast<std::size_t>(m * n) * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("softmax uses the kernel that the tuner chose, for whole rows or for parts") {
  const OwnCache cache;
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Stream stream;
  const auto x = random_matrix(random, 40, 300);
  auto y = Tensor<float, 2>::empty({40, 300});
  const TensorView<const float, 2> in = x;
  const TensorView<float, 2> out = y;
  auto choice = [&] {
    const ops::Input x = in;
    const ops::Output y = out;
    return ops::detail::known_row_config("softmax", stream, DType::F32, {&x.array(), &y.array()}, false);
  };
  CHECK(choice().whole);
  publish_best("softmax", "40x300", "BM=4,BN=64,whole=0");
  CHECK_FALSE(choice().whole);
  CHECK(choice().config == Config::parse("BM=4,BN=64"));
  ops::softmax(stream, x, y);
  stream.synchronize();
  double worst = 0;
  for (std::int64_t m = 0; m < 40; ++m) {
    double sum = 0;
    for (std::int64_t n = 0; n < 300; ++n)
      sum += std::exp(static_cast<double>(in(m, n)));
    for (std::int64_t n = 0; n < 300; ++n)
      worst = std::max(worst, std::abs(std::exp(static_cast<double>(in(m, n))) / sum - out(m, n)));
  }
  CHECK(worst < 1e-6);
}

TEST_CASE("attention uses the tuner's configs, one for all keys and one for causal calls") {
  const OwnCache cache;
  Stream stream;
  const auto config_of = [&](const ops::AttentionOptions& options) {
    const auto q = stand_in<float>({2, 6, 90, 24}), out = stand_in<float>({2, 6, 90, 24});
    const auto k = stand_in<float>({2, 3, 70, 24});
    const Rehearsal r = rehearse([&] { ops::attention(stream, q, k, k, out, options); });
    return r.launches.at(0).config;
  };
  publish_best("attention", "B=2,H=6,G=3,T=90,S=70,D=24", "QUERIES=32,KEYS=64,WIDTH=24,VALUES=24");
  publish_best("attention_causal", "B=2,H=6,G=3,T=90,S=70,D=24", "QUERIES=16,KEYS=32,WIDTH=24,VALUES=24");
  CHECK(config_of({}) == Config::parse("QUERIES=32,KEYS=64,WIDTH=24,VALUES=24"));
  CHECK(config_of({.causal = true}) == Config::parse("QUERIES=16,KEYS=32,WIDTH=24,VALUES=24"));
  const Config usual = ops::detail::attention_config(Device::cpu(), 90, 24, 24, true);
  CHECK(config_of({.causal = true, .soft_cap = 5}) == usual);
}
