// Tests that ops launch with the configs that the tuner knows.
#include "autotune/other_process.h"
#include "autotune/own_cache.h"
#include "autotune/publish_best.h"
#include "test_seed.h"

#include <kiln/autotune/random.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/attention.h>
#include <kiln/ops/attention_backward.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/known_config.h>
#include <kiln/ops/matmul.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/softmax.h>
#include <kiln/ops/tunable_call.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <random>

using namespace kiln;
using test::publish_best;

namespace {

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
    const ops::detail::OpVariant variant;
    const ops::detail::OpArguments arguments{factors[0], factors[1], product};
    return ops::detail::known_config("matmul", stream, {96, 64, 160},
                                     {ops::detail::matmul_kernel, variant, arguments});
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
    const ops::detail::OpVariant variant;
    const ops::detail::OpArguments arguments{x, y};
    return ops::detail::known_row_config(
        "softmax", stream, x.array(), false,
        {ops::detail::softmax_kernel, variant, arguments, &ops::detail::softmax_looped_kernel});
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
  CHECK(config_of({.causal = true, .batch_invariant = true}).get("QUERIES") != 16);
}

namespace {

constexpr auto relu_of_sum = [](auto sum, auto at, auto bias) {
  return max(sum + expand<0>(bias.tile(at.n).load()), 0.0f);
};

void relu_product(Stream& stream, DType, const tune::Problem& p) {
  const auto a = stand_in<float>({p["M"], p["K"]}), b = stand_in<float>({p["K"], p["N"]}),
             c = stand_in<float>({p["M"], p["N"]});
  ops::matmul(stream, a, b, c, relu_of_sum, stand_in<float>({p["N"]}));
}
const ops::TunableCallRegistration registered_product({
    .name = "relu_product",
    .summary = "c = relu(a b + bias)",
    .sizes = "M=96,N=64,K=160",
    .call = relu_product,
});

Config launched(const std::function<void()>& call, std::size_t launch = 0) {
  return rehearse(call).launches.at(launch).config;
}

} // namespace

TEST_CASE("an op with a lambda starts from the plain op's config, and keeps its own") {
  const OwnCache cache;
  Stream stream;
  const tune::Problem problem{{{"M", 112}, {"N", 64}, {"K", 160}}, {}};
  const auto config = [&] { return launched([&] { relu_product(stream, DType::F32, problem); }); };
  const Config usual = config();
  const Config plain = Config::parse("BM=16,BN=32,BK=32"), own = Config::parse("BM=32,BN=16,BK=64");
  REQUIRE(usual != plain);
  publish_best("matmul", "112x64x160", "BM=16,BN=32,BK=32");
  CHECK(config() == plain);
  publish_best("relu_product", "112x64x160", "BM=32,BN=16,BK=64");
  CHECK(config() == own);
  // That does not change the plain product.
  CHECK(launched([&] {
          ops::matmul(stream, stand_in<float>({112, 160}), stand_in<float>({160, 64}),
                      stand_in<float>({112, 64}));
        }) == plain);
  // Another lambda, which is another kernel, starts from a config for its sizes; other sizes do not.
  const auto twice = [](auto sum, auto) { return sum * 2.0f; };
  const auto other = [&](std::int64_t m) {
    return launched([&] {
      ops::matmul(stream, stand_in<float>({m, 160}), stand_in<float>({160, 64}), stand_in<float>({m, 64}),
                  twice);
    });
  };
  const Config started = other(112);
  CHECK((started == plain || started == own));
  CHECK(other(513) != plain);
}

TEST_CASE("batched products, rmsnorm and gradients look up configs of their own") {
  const OwnCache cache;
  Stream stream;
  const auto f32 = [](std::initializer_list<std::int64_t> extents) {
    return ops::detail::stand_in_array(DType::F32, extents);
  };
  const auto input = [&](std::initializer_list<std::int64_t> extents) { return ops::Input(f32(extents)); };
  const auto output = [&](std::initializer_list<std::int64_t> extents) { return ops::Output(f32(extents)); };

  publish_best("matmul_batched", "3x48x32x96", "BM=8,BN=16,BK=32");
  CHECK(launched([&] {
          ops::matmul(stream, input({3, 48, 96}), input({3, 96, 32}), output({3, 48, 32}),
                      ops::MatmulOptions{});
        }) == Config::parse("BM=8,BN=16,BK=32"));
  publish_best("rmsnorm", "40x300", "BM=4,BN=64,whole=0");
  CHECK(launched([&] { ops::rmsnorm(stream, input({40, 300}), input({300}), output({40, 300})); }) ==
        Config::parse("BM=4,BN=64"));
  publish_best("softmax_backward", "40x300", "BM=2,BN=128");
  CHECK(launched([&] {
          ops::softmax_backward(stream, input({40, 300}), input({40, 300}), output({40, 300}));
        }) == Config::parse("BM=2,BN=128"));

  const auto backward = [&](bool wants_dq, bool wants_dk_dv) {
    const auto queries = [&] { return stand_in<float>({2, 6, 90, 24}); };
    const auto keys = [&] { return stand_in<float>({2, 3, 70, 24}); };
    ops::attention_backward(stream, queries(), queries(), keys(), keys(), queries(),
                            stand_in<float>({2, 6, 90}), wants_dq ? ops::Output(queries()) : ops::Output(),
                            wants_dk_dv ? ops::Output(keys()) : ops::Output(),
                            wants_dk_dv ? ops::Output(keys()) : ops::Output());
  };
  constexpr const char* shape = "B=2,H=6,G=3,T=90,S=70,D=24";
  publish_best("attention_backward_keys", shape, "QUERIES=16,KEYS=64,WIDTH=24,VALUES=24");
  publish_best("attention_backward_queries", shape, "QUERIES=64,KEYS=32,WIDTH=24,VALUES=24");
  CHECK(launched([&] { backward(false, true); }, 1) ==
        Config::parse("QUERIES=16,KEYS=64,WIDTH=24,VALUES=24"));
  CHECK(launched([&] { backward(true, false); }, 1) ==
        Config::parse("QUERIES=64,KEYS=32,WIDTH=24,VALUES=24"));
}

TEST_CASE("a call that no search can tune is an error that says why") {
  const auto error_of = [](decltype(ops::TunableCall::call) call, const char* kernel) {
    const ops::TunableCall tunable{"untunable", "", {DType::F32}, "M=64", call, kernel};
    try {
      ops::detail::task_of_call(tunable, DType::F32, {{{"M", 64}}, {}}, Device::cpu());
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const auto product = [](Stream& stream, DType, const tune::Problem& p) {
    const std::int64_t m = p["M"];
    ops::matmul(stream, stand_in<float>({m, m}), stand_in<float>({m, m}), stand_in<float>({m, m}));
  };
  const auto nothing = [](Stream&, DType, const tune::Problem&) {};
  CHECK_THAT(
      error_of(nothing, nullptr),
      Catch::Contains("the call registered as untunable launches no kernel that the tuner has a space"));
  CHECK_THAT(error_of(product, "softmax"),
             Catch::Contains("no kernel \"softmax\" that the tuner has a space for; it launches matmul"));
  CHECK_THAT(
      error_of([](Stream&, DType, const tune::Problem&) { throw std::runtime_error("no file"); }, nullptr),
      Catch::Contains("the call registered as untunable failed: no file"));
  CHECK_THAT(error_of([](Stream&, DType, const tune::Problem&) { throw 3; }, nullptr),
             Catch::Contains("the call registered as untunable failed: it threw"));
  CHECK_THAT(error_of(nullptr, nullptr), Catch::Contains("untunable, has no call; set .call"));
}

TEST_CASE(
    "registrations that lack members are listed, and using them is an error that says what is missing") {
  const ops::TunableCallRegistration nameless(
      {.name = nullptr, .summary = nullptr, .sizes = nullptr, .call = nullptr});
  const ops::TunableCallRegistration without_dtypes(
      {.name = "without_dtypes", .summary = "", .dtypes = {}, .sizes = "M=64", .call = relu_product});
  const auto make = [](const char* name) {
    tune::make_task(*tune::find_tunable(name), "", "", Device::cpu());
  };
  CHECK_THROWS_WITH(make("without_name"), Catch::Contains("has no name; set .name"));
  CHECK_THROWS_WITH(make("without_dtypes"), Catch::Contains("without_dtypes, has no dtypes; set .dtypes"));
}

// Hidden: run in another process by the test below, because the mode is read once.
TEST_CASE("an op with a lambda is tuned at its launch", "[.][tuned at the launch]") {
  const OwnCache cache;
  setenv("KILN_TUNE", "tune", 1);
  Stream stream;
  const auto q = Tensor<float, 3>::zeros({2, 32, 16}), k = Tensor<float, 3>::zeros({2, 64, 16});
  auto o = Tensor<float, 3>::empty({2, 32, 16});
  // The documents of tokens, which decide what the kernel reads.
  auto documents = Tensor<std::int32_t, 1>::empty({64});
  for (std::int64_t i = 0; i < 64; ++i)
    documents.data()[i] = static_cast<std::int32_t>(i / 20);
  const auto same = ops::mask(
      [](auto, auto query, auto key, auto documents) {
        return expand<1>(documents.tile(query.offset).load()) == expand<0>(documents.tile(key.offset).load());
      },
      documents);
  ops::attention(stream, q, k, k, o, {}, same);
  stream.synchronize();
  const auto records = tune::Database::standard().store().load({});
  bool confirmed = false;
  for (const tune::Record& r : records.records)
    confirmed |= r.key->kernel == "attention" && r.confirmed;
  CHECK(confirmed);
}
TEST_CASE("mode tune searches a config for an op with a lambda") {
  CHECK(test::exit_code_of_test("[tuned at the launch]", 100) == 0);
}
