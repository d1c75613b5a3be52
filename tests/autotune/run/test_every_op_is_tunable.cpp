// Tests that ops look up the configs of the spaces that are registered for them, and that these spaces begin
// with a config that works, for sizes of all kinds.
#include "autotune/own_cache.h"
#include "autotune/publish_best.h"
#include "test_seed.h"

#include <kiln/autotune/analytic/machine.h>
#include <kiln/autotune/random.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/space/shape.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/jit/runtime/tensor.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/row_config.h>
#include <kiln/ops/elementwise.h>
#include <kiln/ops/grouped_matmul.h>
#include <kiln/ops/kv_cache.h>
#include <kiln/ops/norm.h>
#include <kiln/ops/rotary.h>
#include <kiln/ops/routing.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace kiln;
using test::publish_best;

namespace {

using Extents = std::initializer_list<std::int64_t>;

ops::Array array_of(DType dtype, Extents extents) { return ops::detail::stand_in_array(dtype, extents); }
ops::Input in(Extents extents) { return ops::Input(array_of(DType::F32, extents)); }
ops::Output out(Extents extents) { return ops::Output(array_of(DType::F32, extents)); }
ops::Input indices(Extents extents) { return ops::Input(array_of(DType::I32, extents)); }

// A call whose kernel is launched with the config that the tuner knows for it.
struct Lookup {
  const char *tunable, *shape, *config, *kernel;
  void (*call)(Stream& stream);
};

const Lookup lookups[] = {
    {"grouped_matmul", "M=40,N=70,K=33,GROUPS=5", "BM=4,BN=32,BK=64", "grouped_matmul",
     [](Stream& s) { ops::grouped_matmul(s, in({40, 33}), in({5, 33, 70}), indices({6}), out({40, 70})); }},
    {"grouped_matmul_backward_b", "M=40,N=70,K=33,GROUPS=5", "BM=32,BN=64,BK=16", "grouped_matmul_backward_b",
     [](Stream& s) {
       ops::grouped_matmul_backward_b(s, in({40, 33}), in({40, 70}), indices({6}), out({5, 33, 70}));
     }},
    {"rotary", "B=2,H=6,T=90,D=24", "HEADS=2,TOKENS=8,PAIRS=12", "rotary",
     [](Stream& s) { ops::rotary(s, in({2, 6, 90, 24}), out({2, 6, 90, 24})); }},
    {"cache_append", "B=2,H=6,T=9,D=24", "HEADS=2,TOKENS=8,PAIRS=12,VALUES=24", "cache_append",
     [](Stream& s) {
       ops::cache_append(s, in({2, 6, 9, 24}), in({2, 6, 9, 24}), indices({2}),
                         {out({2, 6, 64, 24}), out({2, 6, 64, 24})}, {.rotary = ops::RotaryOptions{}});
     }},
    {"cache_append_partly_rotated", "B=2,H=6,T=9,D=24,R=16", "HEADS=2,TOKENS=4,PAIRS=8,REST=8,VALUES=24",
     "cache_append",
     [](Stream& s) {
       ops::cache_append(s, in({2, 6, 9, 24}), in({2, 6, 9, 24}), indices({2}),
                         {out({2, 6, 64, 24}), out({2, 6, 64, 24})},
                         {.rotary = ops::RotaryOptions{.width = 16}});
     }},
    {"cache_append_unrotated", "B=2,H=6,T=9,D=24", "HEADS=1,TOKENS=8,REST=24,VALUES=24", "cache_append",
     [](Stream& s) {
       ops::cache_append(s, in({2, 6, 9, 24}), in({2, 6, 9, 24}), indices({2}),
                         {out({2, 6, 64, 24}), out({2, 6, 64, 24})});
     }},
    {"attention_decode", "B=2,H=6,G=3,T=1,S=200,D=24,P=200",
     "GROUP=2,QUERIES=1,PART=512,WIDTH=24,VALUES=24,KEYS=32", "attention_decode",
     [](Stream& s) {
       ops::attention_decode(s, in({2, 6, 24}), {out({2, 3, 200, 24}), out({2, 3, 200, 24})}, indices({2}),
                             out({2, 6, 24}));
     }},
    {"attention_decode", "B=2,H=6,G=3,T=1,S=192,D=24,P=64",
     "GROUP=2,QUERIES=1,PART=512,WIDTH=24,VALUES=24,KEYS=16", "attention_decode",
     [](Stream& s) {
       ops::attention_decode(s, in({2, 6, 24}), {out({6, 3, 64, 24}), out({6, 3, 64, 24}), indices({2, 3})},
                             indices({2}), out({2, 6, 24}));
     }},
    {"permute_rows", "R=80,N=300", "BN=128", "permute_rows",
     [](Stream& s) { ops::permute_rows(s, in({40, 300}), indices({80}), out({80, 300}), {.slots = 2}); }},
    {"combine_rows", "T=40,N=300,K=2", "BN=64", "combine_rows",
     [](Stream& s) { ops::combine_rows(s, in({80, 300}), indices({40, 2}), in({40, 2}), out({40, 300})); }},
    {"route_topk", "T=40,E=20,K=3", "TOKENS=8,EXPERTS=32,SLOTS=3", "route_topk",
     [](Stream& s) {
       ops::route_topk(s, in({40, 20}), ops::Output(array_of(DType::I32, {40, 3})), out({40, 3}));
     }},
    {"activation_mul_backward", "M=40,N=300", "BM=1,BN=1024", "activation_mul_backward",
     [](Stream& s) {
       ops::activation_mul_backward(s, in({40, 300}), in({40, 300}), in({40, 300}), out({40, 300}),
                                    out({40, 300}));
     }},
    {"dropout", "M=40,N=300", "BM=1,BN=256", "dropout",
     [](Stream& s) { ops::dropout(s, in({40, 300}), out({40, 300})); }},
    {"layernorm_backward", "M=40,N=300", "BM=4,BN=64,whole=0", "norm_backward_looped",
     [](Stream& s) {
       ops::layernorm_backward(s, in({40, 300}), in({300}), in({40, 300}), out({40, 300}), out({300}),
                               out({300}));
     }},
    {"rmsnorm_backward", "M=40,N=300", "BM=8,BN=512,whole=1", "norm_backward",
     [](Stream& s) {
       ops::rmsnorm_backward(s, in({40, 300}), in({300}), in({40, 300}), out({40, 300}), out({300}));
     }},
};

// The config of the first launch of this kernel; empty if there is none.
Config launched(const Lookup& lookup) {
  Stream stream;
  const Rehearsal r = rehearse([&] { lookup.call(stream); });
  for (const RehearsedLaunch& launch : r.launches)
    if (launch.kernel == lookup.kernel) return launch.config;
  return {};
}

} // namespace

TEST_CASE("each op is launched with the config that the tuner knows") {
  const OwnCache cache;
  for (const Lookup& lookup : lookups) {
    INFO(lookup.tunable);
    const Config config = ops::detail::without_whole(Config::parse(lookup.config));
    CHECK(launched(lookup) != config);
    publish_best(lookup.tunable, lookup.shape, lookup.config);
    CHECK(launched(lookup) == config);
  }
}

TEST_CASE("a product of groups in the order of K looks up no config") {
  const OwnCache cache;
  publish_best("grouped_matmul", "M=40,N=70,K=33,GROUPS=5", "BM=4,BN=32,BK=64");
  const auto config = [](bool batch_invariant) {
    Stream s;
    const Rehearsal r = rehearse([&] {
      ops::grouped_matmul(s, in({40, 33}), in({5, 33, 70}), indices({6}), out({40, 70}),
                          {.batch_invariant = batch_invariant});
    });
    return r.launches.at(0).config;
  };
  CHECK(config(false) == Config::parse("BM=4,BN=32,BK=64"));
  CHECK(config(true) != Config::parse("BM=4,BN=32,BK=64"));
}

// The smallest sizes, sizes of no kind, and the defaults.
TEST_CASE("each space begins with a config that the compiler accepts") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto sizes_of = [](const char* tunable, const std::function<std::int64_t()>& size) {
    tune::Problem problem{tune::named_sizes(tune::find_space(tunable)->sizes), {}};
    for (auto& [name, extent] : problem.sizes)
      extent = size();
    const auto limit = [&](const char* name, std::int64_t most) {
      for (auto& [n, extent] : problem.sizes)
        if (n == name) extent = std::min(extent, most);
    };
    if (problem.find("E")) limit("K", problem["E"]);
    if (problem.find("P")) limit("P", problem["S"]);
    const std::int64_t key_heads = problem.find("G").value_or(1);
    for (auto& [name, extent] : problem.sizes) {
      if (name == "D") extent += extent % 2;
      if (name == "H") extent = (extent + key_heads - 1) / key_heads * key_heads;
    }
    return tune::shape_of(problem);
  };
  for (const Device device : {Device::cpu(), Device::emulated("sm_80")})
    for (const Lookup& lookup : lookups) {
      for (const std::string& shape :
           {std::string(), sizes_of(lookup.tunable, [] { return 1; }),
            sizes_of(lookup.tunable, [&] { return static_cast<std::int64_t>(1 + random() % 100); })}) {
        INFO(lookup.tunable << " " << shape << " on " << to_string(device));
        const tune::Task task = tune::make_task(*tune::find_tunable(lookup.tunable), "", shape, device);
        tune::BoundSpace space = task.bound_space();
        tune::Prior prior(task, space, tune::assumed_machine(device));
        REQUIRE(space.seeds().size() == 1);
        CHECK(prior.refusal(space.seeds().front()) == "");
      }
    }
}

namespace {

// The gradient of a matrix with respect to gamma, with a config of the tuner.
Tensor<float, 1> gradient_of_gamma(Stream& stream, const Tensor<float, 2>& x, const Tensor<float, 2>& dy,
                                   const char* config) {
  if (config) publish_best("rmsnorm_backward", fmt::format("M={},N={}", x.extent(0), x.extent(1)), config);
  auto dx = Tensor<float, 2>::empty({x.extent(0), x.extent(1)});
  auto gamma = Tensor<float, 1>::empty({x.extent(1)}), dgamma = Tensor<float, 1>::empty({x.extent(1)});
  gamma.fill(1);
  ops::rmsnorm_backward(stream, x, gamma, dy, dx, dgamma);
  stream.synchronize();
  return dgamma;
}

} // namespace

TEST_CASE("the gradients of a norm are right with each tile that divides the groups of rows") {
  const OwnCache cache;
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto rows = static_cast<std::int64_t>(1 + random() % 5000), columns = std::int64_t{70};
  auto x = Tensor<float, 2>::empty({rows, columns}), dy = Tensor<float, 2>::empty({rows, columns});
  for (Tensor<float, 2>* t : {&x, &dy})
    for (float& v : *t)
      v = normal(random);
  std::vector<double> expected(static_cast<std::size_t>(columns));
  for (std::int64_t m = 0; m < rows; ++m) {
    double squares = 0;
    for (std::int64_t n = 0; n < columns; ++n)
      squares += std::pow(static_cast<double>(x.view()(m, n)), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
    for (std::int64_t n = 0; n < columns; ++n)
      expected[static_cast<std::size_t>(n)] += static_cast<double>(dy.view()(m, n)) * x.view()(m, n) * scale;
  }
  Stream stream;
  const auto task = tune::make_task(*tune::find_tunable("rmsnorm_backward"), "f32",
                                    fmt::format("M={},N={}", rows, columns), Device::cpu());
  tune::BoundSpace space = task.bound_space();
  tune::Random draw(seed);
  for (int i = 0; i < 4; ++i) {
    const std::string config = space.config(*space.sample(draw)).to_string();
    INFO(rows << " rows {" << config << "}");
    const auto dgamma = gradient_of_gamma(stream, x, dy, config.c_str());
    double worst = 0;
    for (std::int64_t n = 0; n < columns; ++n)
      worst = std::max(worst, std::abs(expected[static_cast<std::size_t>(n)] - dgamma.data()[n]));
    CHECK(worst < 1e-3);
  }
}
