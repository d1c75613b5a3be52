// Tests which outputs are accepted as right, element by element.
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

template <class T> Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
Bytes floats(const std::vector<float>& values) { return bytes_of(values); }

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

// An output whose elements moved to `moved` in runs on perturbed inputs.
ReferenceOutput reference_of(DType dtype, const Bytes& values, const std::vector<Bytes>& moved) {
  ReferenceOutput r{
      dtype, values, {}, Motion(dtype, values.size() / static_cast<std::size_t>(size_of(dtype)))};
  for (const Bytes& run : moved)
    r.motion.add(values, run, {}, {});
  r.motion.settle(values);
  return r;
}

// Each element moves by `distance` in one of the two runs at least.
std::vector<Bytes> runs_apart(const std::vector<float>& values, const std::vector<float>& distance) {
  std::vector<float> up = values, down = values;
  for (std::size_t i = 0; i < values.size(); ++i)
    up[i] += distance[i], down[i] -= distance[i];
  return {floats(up), floats(down), floats(up), floats(down)};
}

} // namespace

TEST_CASE("an element may differ by a multiple of how far it moves, whatever the size of the others") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::vector<float> values = random_values(10'000, seed), distance(values.size());
  for (std::size_t i = 0; i < values.size();
       i += 2) // every other element is a small mean next to a large sum
    values[i] = 1e-3f * (1 + std::abs(values[i])), values[i + 1] *= 1e6f;
  for (std::size_t i = 0; i < values.size(); ++i)
    distance[i] = std::abs(values[i]) * 1e-6f;
  const ReferenceOutput reference = reference_of(DType::F32, floats(values), runs_apart(values, distance));
  std::vector<float> close = values, one = values;
  for (std::size_t i = 0; i < values.size(); ++i)
    close[i] += 5 * distance[i];
  one[4242] *= 1.001f;
  const Verdict right = compare(reference, floats(close), {}, {});
  INFO(right.error);
  CHECK(right.kind == Verdict::Kind::right);
  CHECK(right.compared.compared == values.size());
  CHECK(right.compared.bound > 0);
  CHECK(std::abs(right.compared.value - right.compared.reference) < right.compared.bound);
  CHECK(right.compared.value == close[right.compared.worst]);
  const Verdict wrong = compare(reference, floats(one), {}, {});
  CHECK(wrong.kind == Verdict::Kind::wrong);
  CHECK_THAT(wrong.error, Catch::StartsWith("element 4242 is "));
  CHECK(compare(reference, floats(one), {}, {.relative = 2e-3}).kind == Verdict::Kind::right);
  CHECK(compare(reference, floats(one), {}, {.absolute = 1e-9}).kind == Verdict::Kind::wrong);
  CHECK(compare(reference, floats(one), {}, {.share = 0.001}).kind == Verdict::Kind::right);
}

TEST_CASE("an element that moved too little by chance borrows from those of its magnitude") {
  std::vector<float> values = random_values(10'000, 1), distance(values.size(), 1e-3f);
  values[100] = 1e-3f;
  distance[100] = 1e-4f;
  const ReferenceOutput reference = reference_of(DType::F32, floats(values), runs_apart(values, distance));
  std::vector<float> other = values;
  other[100] += 5e-3f;
  CHECK(compare(reference, floats(other), {}, {}).kind == Verdict::Kind::right);
  other[100] += 0.1f;
  CHECK(compare(reference, floats(other), {}, {}).kind == Verdict::Kind::wrong);
}

TEST_CASE("floats that jump where a float decides may jump elsewhere, about as often") {
  std::vector<float> values(10'000, 1.0f), jumped = values, as_often = values, everywhere(10'000, 2.0f),
                                           far = values;
  for (std::size_t i = 0; i < 10; ++i) {
    jumped[i] = 2;
    as_often[5000 + i] = 2;
  }
  far[5000] = 10;
  const ReferenceOutput reference = reference_of(DType::F32, floats(values), {floats(jumped)});
  CHECK(compare(reference, floats(as_often), {}, {}).kind == Verdict::Kind::right);
  CHECK(compare(reference, floats(everywhere), {}, {}).kind == Verdict::Kind::wrong);
  CHECK(compare(reference, floats(far), {}, {}).kind == Verdict::Kind::wrong);
  const ReferenceOutput still = reference_of(DType::F32, floats(values), {floats(values)});
  CHECK(compare(still, floats(as_often), {}, {}).kind == Verdict::Kind::wrong);
}

TEST_CASE("neighbouring coarse floats are accepted, and one wrong element is not") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  struct Coarse {
    DType dtype;
    int mantissa; // bits
  };
  for (const Coarse& c : {Coarse{DType::F16, 10}, Coarse{DType::BF16, 7}, Coarse{DType::F8E4M3, 3}}) {
    INFO(name(c.dtype));
    const auto size = static_cast<std::size_t>(size_of(c.dtype));
    const std::vector<float> values = random_values(10'000, seed);
    Bytes stored(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i)
      ir::store_cell(c.dtype, &stored[i * size], ir::cell_of_float(c.dtype, values[i]));
    const ReferenceOutput reference = reference_of(c.dtype, stored, {stored});
    Bytes rounded = stored; // each third element becomes the next float
    for (std::size_t i = 0; i < values.size(); i += 3)
      if (++rounded[i * size] == 0 && size > 1) ++rounded[i * size + 1];
    const Verdict v = compare(reference, rounded, {}, {});
    INFO(v.error);
    CHECK(v.kind == Verdict::Kind::right);
    std::size_t large = 0; // an element that is not near zero
    while (!(std::abs(values[large]) > 2 && std::abs(values[large]) < 3))
      ++large;
    for (const double wrong : {0.0, -1.0 * values[large], 1.6 * values[large]}) {
      INFO(values[large] << " becomes " << wrong);
      Bytes one = stored;
      ir::store_cell(c.dtype, &one[large * size], ir::cell_of_float(c.dtype, wrong));
      CHECK(compare(reference, one, {}, {}).kind == Verdict::Kind::wrong);
    }
  }
}

TEST_CASE("NaN, infinities and elements that are not written are distinguished") {
  const Bytes poisoned = poison_of(16, DType::F32, Pattern::first);
  ReferenceOutput reference{DType::F32, floats({1, INFINITY, NAN, 0}), {false, false, false, true}, {}};
  std::memcpy(&reference.values[12], &poisoned[12], 4);
  Bytes values = reference.values;
  const Verdict right = compare(reference, values, poisoned, {});
  CHECK(right.kind == Verdict::Kind::right);
  CHECK(right.compared.compared == 1);
  auto with = [&](std::size_t i, float f) {
    Bytes changed = values;
    std::memcpy(&changed[4 * i], &f, 4);
    return compare(reference, changed, poisoned, {});
  };
  CHECK(with(0, std::nanf("1")).kind == Verdict::Kind::not_a_number);
  CHECK(with(1, -INFINITY).kind == Verdict::Kind::wrong);
  CHECK(with(1, 3e38f).kind == Verdict::Kind::wrong);
  CHECK(with(2, 5).kind == Verdict::Kind::wrong);
  CHECK(with(3, 0).error == "element 3 is written, but the reference does not write it");
  Bytes unwritten = values;
  std::memcpy(unwritten.data(), poisoned.data(), 4);
  const Verdict v = compare(reference, unwritten, poisoned, {});
  CHECK(v.kind == Verdict::Kind::wrong);
  CHECK(v.error == "element 0 is not written");
  unwritten = values;
  std::memcpy(&unwritten[8], &poisoned[8], 4); // where the reference has another NaN
  CHECK(compare(reference, unwritten, poisoned, {}).error == "element 2 is not written");
}

TEST_CASE("elements that are finite or written in some runs alone are not compared") {
  const Bytes poisoned = poison_of(12, DType::F32, Pattern::second);
  const Bytes values = floats({1, 2, 3});
  Bytes moved = floats({1, NAN, 3});
  std::memcpy(&moved[8], &poisoned[8], 4);
  ReferenceOutput reference{DType::F32, values, {false, false, false}, Motion(DType::F32, 3)};
  reference.motion.add(values, moved, reference.unwritten, poisoned);
  reference.motion.settle(values);
  const Verdict v = compare(reference, floats({1, 7, 8}), poisoned, {});
  CHECK(v.kind == Verdict::Kind::right);
  CHECK(v.compared.compared == 1);
  CHECK(compare(reference, floats({2, 7, 8}), poisoned, {}).kind == Verdict::Kind::wrong);
}

TEST_CASE("if only finite elements count, the others may differ but must be written") {
  const Bytes poisoned = poison_of(16, DType::F32, Pattern::first);
  const ReferenceOutput reference{
      DType::F32, floats({1, INFINITY, NAN, 2}), {false, false, false, false}, {}};
  auto kind = [&](const Bytes& values) {
    return compare(reference, values, poisoned, {}, Strictness::numbers).kind;
  };
  CHECK(kind(floats({NAN, 3, -INFINITY, 2})) == Verdict::Kind::right);
  CHECK(kind(floats({1, INFINITY, NAN, 2.1f})) == Verdict::Kind::wrong);
  Bytes unwritten = floats({1, INFINITY, NAN, 2});
  std::memcpy(&unwritten[8], &poisoned[8], 4);
  CHECK(kind(unwritten) == Verdict::Kind::wrong);
}

TEST_CASE("integers that never change are compared exactly, and both patterns differ for every dtype") {
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
  const Bytes values{1, 0, 2, 0, 3, 0};
  const ReferenceOutput reference = reference_of(DType::I16, values, {values});
  CHECK(compare(reference, values, {}, {}).kind == Verdict::Kind::right);
  CHECK(compare(reference, Bytes{1, 0, 3, 0, 3, 0}, {}, {}).error ==
        "element 1 is 3, but the reference has 2");
}

TEST_CASE("integers that depend on floats may differ by one, in few elements") {
  const std::vector<std::int32_t> values(10'000, 100);
  std::vector<std::int32_t> moved = values, few = values, many = values, far = values;
  for (std::size_t i = 0; i < 10; ++i)
    moved[i] = 101, few[500 + i] = 99;
  for (std::size_t i = 0; i < 500; ++i)
    many[i] = 101;
  far[7000] = 105;
  ReferenceOutput reference = reference_of(DType::I32, bytes_of(values), {bytes_of(moved)});
  const Verdict right = compare(reference, bytes_of(few), {}, {});
  CHECK(right.kind == Verdict::Kind::right);
  CHECK(right.compared.exceptions == 10);
  CHECK_THAT(compare(reference, bytes_of(many), {}, {}).error, Catch::Contains("5 % of the elements differ"));
  CHECK(compare(reference, bytes_of(far), {}, {}).kind == Verdict::Kind::wrong);
  CHECK(compare(reference, bytes_of(far), {}, {.share = 0.001}).kind == Verdict::Kind::right);
  // None changed in the runs, but they do depend on floats.
  reference = reference_of(DType::I32, bytes_of(values), {bytes_of(values)});
  CHECK(compare(reference, bytes_of(few), {}, {}).kind == Verdict::Kind::wrong);
  reference.motion.from_floats = true;
  CHECK(compare(reference, bytes_of(few), {}, {}).kind == Verdict::Kind::right);
  CHECK(compare(reference, bytes_of(many), {}, {}).kind == Verdict::Kind::wrong);
}
