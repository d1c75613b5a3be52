// Tests that batch-invariant products have the same bits with each config that the tuner may find for them.
#include "autotune/other_process.h"
#include "autotune/own_cache.h"
#include "autotune/publish_best.h"
#include "ops/batch_bits.h"

#include <kiln/autotune/random.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/ops/detail/call_task.h>
#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/matmul.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fmt/format.h>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::uint32_t epilogue = ops::detail::matmul_fixed_order | ops::detail::matmul_bias |
                                   static_cast<std::uint32_t>(ops::Activation::silu);

std::string shape_text(std::int64_t m, std::int64_t n, std::int64_t k) {
  return fmt::format("{}x{}x{}", m, n, k);
}

tune::Task task_of(DType dtype, const std::string& shape, Device device) {
  return tune::make_task(*tune::find_tunable("matmul_batch_invariant"), std::string(name(dtype)), shape,
                         device);
}

// Multiplies a part of the rows with random configs of the search, and compares the bits with those of all
// rows.
template <class T> void check_configs(Random& random, Device device) {
  const bool cpu = device.is_cpu();
  const std::int64_t m = random.integer(1, cpu ? 200 : 70), n = random.integer(1, cpu ? 200 : 70),
                     k = random.integer(0, 1) ? random.integer(1, 200)
                                              : random.integer(cpu ? 500 : 200, cpu ? 1500 : 300);
  const bool a_transposed = random.integer(0, 3) == 0, b_transposed = random.integer(0, 1);
  INFO(name(dtype_of<T>) << " " << shape_text(m, n, k) << (a_transposed ? ", a transposed" : "")
                         << (b_transposed ? ", b transposed" : "") << " on " << to_string(device));
  const auto a = random_tensor<T>(random, a_transposed ? k : m, a_transposed ? m : k),
             b = random_tensor<T>(random, b_transposed ? n : k, b_transposed ? k : n),
             bias = random_tensor<T>(random, 1, n);
  const auto left = a_transposed ? a.view().transpose() : a.view();
  const auto right = b_transposed ? b.view().transpose() : b.view();
  auto c = Tensor<T, 2>::zeros({m, n});
  const ops::detail::OpVariant variant{dtype_of<T> == DType::F64 ? DType::F64 : DType::F32, epilogue};
  const auto multiply = [&](const Config& config, std::int64_t first, std::int64_t count) {
    on_test_device(
        [&](Stream& stream, auto a, auto b, auto bias, auto c) {
          ops::detail::matmul_kernel.launch(stream, config, variant,
                                            {ops::Input(a), ops::Input(b), ops::Input(bias), ops::Output(c)});
        },
        left.slice(0, first, first + count), right, bias.view().select(0, 0),
        c.view().slice(0, first, first + count));
  };
  multiply(ops::matmul_config(device, dtype_of<T>, m, n, k), 0, m);
  const Bits expected = bits_of(c.view());
  tune::Random draw(static_cast<std::uint64_t>(random.integer(0, 1 << 30)));
  for (int i = 0; i < (cpu ? 5 : 2); ++i) {
    const std::int64_t count = i == 0 ? m : random.integer(1, m), first = random.integer(0, m - count);
    const tune::Task task = task_of(dtype_of<T>, shape_text(count, n, k), device);
    tune::BoundSpace space = task.bound_space();
    const Config config = space.config(*space.sample(draw));
    INFO("rows " << first << " to " << first + count - 1 << " {" << config.to_string() << "}");
    overwrite(c.view().slice(0, first, first + count));
    multiply(config, first, count);
    CHECK((bits_of(c.view()) == expected));
  }
}

void check_configs_on(Device device, int count) {
  Random random;
  KILN_SEED(random);
  setenv("KILN_TEST_DEVICE", to_string(device).c_str(), 1);
  for (int i = 0; i < count; ++i) {
    check_configs<float>(random, device);
    check_configs<bf16>(random, device);
    if (i % 2 == 0)
      check_configs<f16>(random, device);
    else
      check_configs<double>(random, device);
  }
  unsetenv("KILN_TEST_DEVICE");
}

} // namespace

TEST_CASE("batch-invariant products have the same bits with all configs of their search") {
  check_configs_on(Device::cpu(), 4);
}
TEST_CASE("batch-invariant products have the same bits with all configs on emulated GPUs", "[emulator]") {
  for (const char* gpu : {"sm_80", "sm_90a"})
    check_configs_on(Device::emulated(gpu), 2);
}

TEST_CASE("a search for batch-invariant products has the step of K of matmul_config") {
  Random random;
  KILN_SEED(random);
  for (const Device device : {Device::cpu(), Device::emulated("sm_80"), Device::emulated("sm_90a")})
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16})
      for (int i = 0; i < 8; ++i) {
        const std::int64_t m = std::int64_t{1} << random.integer(0, 12), n = random.integer(1, 5000),
                           k = i == 0 ? 1 : random.integer(1, i % 2 ? 100 : 2000);
        const tune::Task task = task_of(dtype, shape_text(m, n, k), device);
        tune::BoundSpace space = task.bound_space();
        const auto step = ops::matmul_config(device, dtype, m, n, k).get("BK");
        INFO(name(dtype) << " " << shape_text(m, n, k) << " on " << to_string(device));
        REQUIRE(space.seeds().size() == 1);
        CHECK(space.config(space.seeds().front()).get("BK") == step);
        tune::Random draw(1);
        CHECK(space.config(*space.sample(draw)).get("BK") == step);
      }
}

namespace {

// The config with which this product is launched.
Config launched(std::int64_t m, bool fixed, const ops::MatmulOptions& more = {}) {
  ops::MatmulOptions options = more;
  options.batch_invariant = fixed;
  Stream stream;
  const Rehearsal r = rehearse([&] {
    ops::matmul(stream, stand_in<float>({m, 160}), stand_in<float>({160, 72}), stand_in<float>({m, 72}),
                options);
  });
  return r.launches.at(0).config;
}

} // namespace

TEST_CASE("batch-invariant products use configs that were found, but no other step of K") {
  const OwnCache cache;
  const auto config = [](int bm, int bn, int bk) {
    return Config::parse(fmt::format("BM={},BN={},BK={}", bm, bn, bk));
  };
  const auto publish = [](const char* kernel, const std::string& shape, const Config& config) {
    publish_best(kernel, shape, config.to_string());
  };
  const Config usual = launched(48, true);
  REQUIRE(usual.get("BK") == 256);
  // Of the plain product, which is another variant of the kernel.
  publish("matmul", "48x72x160", config(16, 32, 64));
  CHECK(launched(48, false) == config(16, 32, 64));
  CHECK(launched(48, true) == usual);
  publish("matmul", "56x72x160", config(16, 32, 256));
  CHECK(launched(56, true) == config(16, 32, 256));
  // Of its own. A record with another step of K cannot come from a search.
  publish("matmul_batch_invariant", "48x72x160", config(32, 64, 64));
  CHECK(launched(48, true) == usual);
  publish("matmul_batch_invariant", "48x72x160", config(32, 64, 256));
  CHECK(launched(48, true) == config(32, 64, 256));
  CHECK(launched(48, false) == config(16, 32, 64));
  CHECK(launched(48, true, {.activation = ops::Activation::gelu}) == config(32, 64, 256));

  publish("matmul_batched_batch_invariant", "3x48x72x160", config(8, 16, 256));
  const Rehearsal batched = rehearse([] {
    Stream stream;
    ops::matmul(stream, stand_in<float>({3, 48, 160}), stand_in<float>({3, 160, 72}),
                stand_in<float>({3, 48, 72}), ops::MatmulOptions{.batch_invariant = true});
  });
  CHECK(batched.launches.at(0).config == config(8, 16, 256));
}

TEST_CASE("the bits of batch-invariant products are the same with and without records") {
  const OwnCache cache;
  Random random;
  KILN_SEED(random);
  constexpr std::int64_t m = 77, n = 90, k = 300;
  const auto a = random_tensor<float>(random, m, k), b = random_tensor<float>(random, k, n);
  auto c = Tensor<float, 2>::zeros({m, n});
  const auto bits = [&](std::int64_t rows) {
    overwrite(c.view());
    Stream stream;
    ops::matmul(stream, a.view().slice(0, 0, rows), b, c.view().slice(0, 0, rows),
                {.activation = ops::Activation::gelu, .batch_invariant = true});
    stream.synchronize();
    return bits_of(c.view().slice(0, 0, 5));
  };
  const Bits expected = bits(m);
  for (const std::int64_t rows : {std::int64_t{5}, std::int64_t{20}, m}) {
    const tune::Task task = task_of(DType::F32, shape_text(rows, n, k), Device::cpu());
    tune::BoundSpace space = task.bound_space();
    tune::Random draw(static_cast<std::uint64_t>(random.integer(0, 1 << 30)));
    const Config config = space.config(*space.sample(draw));
    INFO(rows << " rows {" << config.to_string() << "}");
    publish_best("matmul_batch_invariant", shape_text(rows, n, k), config.to_string());
    CHECK(rehearse([&] { bits(rows); }).launches.at(0).config == config);
    CHECK((bits(rows) == expected));
  }
}

TEST_CASE("with records, a part of the columns has the bits of the whole product") {
  const OwnCache cache;
  Random random;
  KILN_SEED(random);
  constexpr std::int64_t m = 33, n = 192, k = 400, begin = 64, end = 128;
  const auto a = random_tensor<bf16>(random, m, k), b = random_tensor<bf16>(random, k, n);
  auto whole = Tensor<bf16, 2>::zeros({m, n}), part = Tensor<bf16, 2>::zeros({m, end - begin});
  Stream stream;
  ops::matmul(stream, a, b, whole, {.batch_invariant = true});
  stream.synchronize();
  const auto multiply = [&] {
    ops::matmul(stream, a, b.view().slice(1, begin, end), part,
                {.batch_invariant = true, .whole_columns = n});
    stream.synchronize();
    return bits_of(part.view());
  };
  const Bits expected = bits_of(whole.view().slice(1, begin, end));
  CHECK((multiply() == expected));
  const tune::Task task = task_of(DType::BF16, shape_text(m, end - begin, k), Device::cpu());
  tune::Record record;
  record.key = std::make_shared<const tune::RecordKey>(task.key());
  record.config = "BM=8,BN=16,BK=512";
  record.result.seconds = 1e-6;
  REQUIRE(tune::Database::standard().publish(record));
  CHECK(rehearse([&] { multiply(); }).launches.at(0).config == Config::parse(record.config));
  overwrite(part.view());
  CHECK((multiply() == expected));
}

// Hidden: the two tests below run them in other processes, because the mode is read once.
TEST_CASE("a batch-invariant product is tuned at its launch", "[.][tuned batch-invariant product]") {
  const OwnCache cache;
  setenv("KILN_TUNE", "tune", 1);
  Stream stream;
  const auto a = Tensor<float, 2>::zeros({20, 64}), b = Tensor<float, 2>::zeros({64, 48});
  auto c = Tensor<float, 2>::empty({20, 48});
  ops::matmul(stream, a, b, c, {.batch_invariant = true});
  stream.synchronize();
  const auto records = tune::Database::standard().store().load({});
  bool confirmed = false;
  for (const tune::Record& r : records.records) {
    CHECK(r.key->problem.kind.ends_with(tune::one_order_suffix));
    CHECK(Config::parse(r.config).get("BK") == 64);
    confirmed |= r.confirmed;
  }
  CHECK(confirmed);
}
TEST_CASE("a batch-invariant product is launched in mode pinned", "[.][pinned batch-invariant product]") {
  const OwnCache cache;
  setenv("KILN_TUNE", "pinned", 1);
  CHECK(launched(48, true) == ops::matmul_config(Device::cpu(), DType::F32, 48, 72, 160));
  CHECK_THROWS_WITH(launched(48, false), Catch::Contains("the tuner's mode is pinned"));
}
TEST_CASE("mode tune searches a config for a batch-invariant product") {
  CHECK(exit_code_of_test("[tuned batch-invariant product]", 100) == 0);
}
TEST_CASE("in mode pinned, a batch-invariant product needs no config") {
  CHECK(exit_code_of_test("[pinned batch-invariant product]", 60) == 0);
}
