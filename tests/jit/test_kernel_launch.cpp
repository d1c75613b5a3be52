// Kernels through the public calls: launch on the CPU, compared with the interpreter and with plain C++.
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {

std::vector<float> random_floats(std::mt19937_64& random, std::int64_t n) {
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values)
    v = numbers(random);
  return values;
}

const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load() + y.tile(i).load());
});

} // namespace

TEST_CASE("a launched kernel adds vectors of any length") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (std::int64_t n : {std::int64_t{1}, std::int64_t{1000}, std::int64_t(random() % 100000)}) {
    auto x = random_floats(random, n), y = random_floats(random, n);
    std::vector<float> out(x.size(), NAN), reference(x.size(), NAN);
    add.launch(stream, {BN = 256}, TensorView(x), TensorView(y), TensorView(out));
    add.interpret({BN = 256}, TensorView(x), TensorView(y), TensorView(reference));
    stream.synchronize();
    REQUIRE(out == reference);
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(out[i] == x[i] + y[i]);
  }
}
