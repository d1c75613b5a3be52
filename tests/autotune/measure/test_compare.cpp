// Tests which outputs are accepted as right.
#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/compare.h>

#include <kiln/dsl/ir/semantics.h>

#include <catch2/catch.hpp>

#include "test_seed.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace kiln;
using namespace kiln::tune;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values)
    v = normal(random);
  return values;
}

Bytes poison_of(std::size_t bytes, DType t, Pattern pattern) {
  Bytes p(bytes);
  poison(p, t, pattern);
  return p;
}

} // namespace

TEST_CASE("outputs are right within the tolerance and wrong outside of it, by norm and by element") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::vector<float> values = random_values(100'000, seed);
  values[77'777] = 0.1f;
  const ReferenceOutput reference{DType::F32, floats(values), {}};
  CHECK(compare(reference, floats(values), {}, 1e-5).kind == Verdict::Kind::right);
  std::vector<float> close = values, apart = values, one = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    close[i] *= 1 + 5e-6f;
    apart[i] *= 1 + 3e-5f;
  }
  one[77'777] += 3; // 1 % of the norm, which the norm alone would accept
  CHECK(compare(reference, floats(close), {}, 1e-5).kind == Verdict::Kind::right);
  const Verdict v = compare(reference, floats(apart), {}, 1e-5);
  CHECK(v.kind == Verdict::Kind::wrong);
  CHECK_THAT(v.error, Catch::Contains("the relative error is 3"));
  CHECK_THAT(compare(reference, floats(one), {}, 1.1e-2).error, Catch::StartsWith("element 77777 is "));
}

TEST_CASE("one wrong element is detected in outputs of coarse floats, and neighbouring floats are accepted") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  struct Coarse {
    DType dtype;
    double tolerance; // as in tolerance_of
    int mantissa;     // bits
  };
  for (const Coarse& c :
       {Coarse{DType::F16, 4e-3, 10}, Coarse{DType::BF16, 2e-2, 7}, Coarse{DType::F8E4M3, 0.1, 3}}) {
    INFO(name(c.dtype));
    const auto size = static_cast<std::size_t>(size_of(c.dtype));
    const std::vector<float> values = random_values(100'000, seed);
    ReferenceOutput reference{c.dtype, Bytes(values.size() * size), {}};
    for (std::size_t i = 0; i < values.size(); ++i)
      ir::store_cell(c.dtype, &reference.values[i * size], ir::cell_of_float(c.dtype, values[i]));
    Bytes rounded = reference.values; // each third element is rounded to the next float
    for (std::size_t i = 0; i < values.size(); i += 3)
      ir::store_cell(c.dtype, &rounded[i * size],
                     ir::cell_of_float(c.dtype, values[i] * (1 + std::ldexp(1.0, -c.mantissa))));
    CHECK(compare(reference, rounded, {}, c.tolerance).kind == Verdict::Kind::right);
    std::size_t large = 0; // an element that is not near zero
    while (!(std::abs(values[large]) > 2 && std::abs(values[large]) < 3))
      ++large;
    for (const double wrong :
         {0.0, -1.0 * values[large], 10.0}) { // a zero, a wrong sign, the value of another element
      INFO(values[large] << " becomes " << wrong);
      Bytes one = reference.values;
      ir::store_cell(c.dtype, &one[large * size], ir::cell_of_float(c.dtype, wrong));
      CHECK(compare(reference, one, {}, c.tolerance).kind == Verdict::Kind::wrong);
    }
  }
}

TEST_CASE("NaN, infinities and elements that are not written are distinguished") {
  const Bytes poisoned = poison_of(16, DType::F32, Pattern::first);
  ReferenceOutput reference{DType::F32, floats({1, INFINITY, NAN, 0}), {false, false, false, true}};
  std::memcpy(&reference.values[12], &poisoned[12], 4);
  Bytes values = reference.values;
  CHECK(compare(reference, values, poisoned, 1e-5).kind == Verdict::Kind::right);
  auto with = [&](std::size_t i, float f) {
    Bytes changed = values;
    std::memcpy(&changed[4 * i], &f, 4);
    return compare(reference, changed, poisoned, 1e-5);
  };
  CHECK(with(0, std::nanf("1")).kind == Verdict::Kind::not_a_number);
  CHECK(with(1, -INFINITY).kind == Verdict::Kind::wrong);
  CHECK(with(1, 3e38f).kind == Verdict::Kind::wrong);
  CHECK(with(2, 5).kind == Verdict::Kind::wrong);
  CHECK(with(3, 0).error == "element 3 is written, but the reference does not write it");
  Bytes unwritten = values;
  std::memcpy(unwritten.data(), poisoned.data(), 4);
  const Verdict v = compare(reference, unwritten, poisoned, 1e-5);
  CHECK(v.kind == Verdict::Kind::wrong);
  CHECK(v.error == "element 0 is not written");
  unwritten = values;
  std::memcpy(&unwritten[8], &poisoned[8], 4); // where the reference has another NaN
  CHECK(compare(reference, unwritten, poisoned, 1e-5).error == "element 2 is not written");
}

TEST_CASE("if only finite elements count, the others may differ but must be written") {
  const Bytes poisoned = poison_of(16, DType::F32, Pattern::first);
  const ReferenceOutput reference{DType::F32, floats({1, INFINITY, NAN, 2}), {false, false, false, false}};
  auto kind = [&](const Bytes& values) {
    return compare(reference, values, poisoned, 1e-5, Strictness::numbers).kind;
  };
  CHECK(kind(floats({NAN, 3, -INFINITY, 2})) == Verdict::Kind::right);
  CHECK(kind(floats({1, INFINITY, NAN, 2.1f})) == Verdict::Kind::wrong);
  Bytes unwritten = floats({1, INFINITY, NAN, 2});
  std::memcpy(&unwritten[8], &poisoned[8], 4);
  CHECK(kind(unwritten) == Verdict::Kind::wrong);
}

TEST_CASE("integers are compared exactly, and both patterns differ for every dtype") {
  for (int t = 0; t < dtype_count; ++t) {
    const auto dtype = static_cast<DType>(t);
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const Bytes first = poison_of(8 * size, dtype, Pattern::first),
                second = poison_of(8 * size, dtype, Pattern::second);
    INFO(name(dtype));
    for (std::size_t i = 0; i < 8; ++i)
      CHECK(std::memcmp(&first[i * size], &second[i * size], size) != 0);
    if (!is_float(dtype)) continue;
    CHECK(std::isnan(static_cast<double>(ir::float_of(dtype, ir::load_cell(dtype, first.data())))));
    CHECK(std::isnan(static_cast<double>(ir::float_of(dtype, ir::load_cell(dtype, second.data())))));
  }
  ReferenceOutput reference{DType::I16, {1, 0, 2, 0, 3, 0}, {}};
  CHECK(compare(reference, reference.values, {}, 0).kind == Verdict::Kind::right);
  CHECK(compare(reference, Bytes{1, 0, 3, 0, 3, 0}, {}, 1).error ==
        "element 1 is 3, but the reference has 2");
}
