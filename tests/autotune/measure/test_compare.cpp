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
    r.motion.add({values, run, {}, {}});
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

TEST_CASE("as many floats that moved in no run may differ like their peers as stayed by chance") {
  constexpr std::size_t n = 10'000, runs = 4;
  std::mt19937_64 random(test::fresh_seed());
  const std::vector<float> values(n, 1.5f);
  const auto moved_by =
      [&](std::size_t constants) { // the last elements never move, others move two times of three
        std::vector<Bytes> moved;
        for (std::size_t run = 0; run < runs; ++run) {
          std::vector<float> v = values;
          for (std::size_t i = 0; i < n - constants; ++i)
            v[i] += random() % 3 ? 2e-6f : 0.0f;
          moved.push_back(floats(v));
        }
        return reference_of(DType::F32, floats(values), moved);
      };
  std::vector<float> others = values, last = values;
  for (std::size_t i = 0; i < n / 2; ++i)
    others[i] += 4e-6f;
  for (std::size_t i = n - 2000; i < n; ++i)
    last[i] += 4e-6f;
  const ReferenceOutput all = moved_by(0), most = moved_by(2000);
  CHECK(all.motion.unmoved_by_chance() > n / 150.0); // a share of 1 / 81
  CHECK(all.motion.unmoved_by_chance() < n / 40.0);
  CHECK(most.motion.unmoved_by_chance() < n / 40.0);
  CHECK(compare(all, floats(others), {}, {}).kind == Verdict::Kind::right);
  CHECK(compare(most, floats(others), {}, {}).kind == Verdict::Kind::right);
  CHECK(compare(most, floats(last), {}, {}).kind == Verdict::Kind::wrong);
}

TEST_CASE("further runs raise the spreads that were too small by chance, but not by jumps") {
  const std::vector<float> values(1000, 1.5f);
  std::vector<float> moved = values, finer = values;
  for (std::size_t i = 2; i < values.size(); ++i)
    moved[i] += 1e-6f;
  finer[0] += 1e-6f;
  finer[1] += 1;
  ReferenceOutput r = reference_of(DType::F32, floats(values), {floats(moved), floats(moved)});
  r.motion.add_finer({r.values, floats(finer), {}, {}});
  CHECK(r.motion.spread(0) > 0);
  CHECK(r.motion.spread(1) == 0);
  CHECK(r.motion.jumps() == 0);
  CHECK(r.motion.runs() == 3);
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
  const std::vector<bool> kept(4, true);       // the other pattern, too
  CHECK(compare(reference, unwritten, poisoned, {}, Strictness::all, {}, kept).error ==
        "element 2 is not written");
  CHECK(compare(reference, unwritten, poisoned, {}).kind == Verdict::Kind::right);
}

TEST_CASE("an integer that equals the pattern is not written only if it keeps another pattern, too") {
  Bytes values(1000, 100);
  std::fill(values.begin(), values.begin() + 10, static_cast<unsigned char>(0xA4));
  Bytes moved = values, candidate = values;
  moved[0] = candidate[1] = 0xA5;
  const Bytes poisoned = poison_of(values.size(), DType::U8, Pattern::first);
  const ReferenceOutput reference = reference_of(DType::U8, values, {moved});
  CHECK(compare(reference, candidate, poisoned, {}).kind == Verdict::Kind::right);
  CHECK(compare(reference, candidate, poisoned, {.share = 0.5}, Strictness::all, {},
                std::vector<bool>(values.size(), true))
            .error == "element 1 is not written");
  candidate[500] = 0xA5;
  CHECK(compare(reference, candidate, poisoned, {}).error == "element 500 is not written");
}

TEST_CASE("elements that are finite or written in some runs alone are not compared") {
  const Bytes poisoned = poison_of(12, DType::F32, Pattern::second);
  const Bytes values = floats({1, 2, 3}), moved = floats({1, NAN, 4});
  ReferenceOutput reference{DType::F32, values, {false, false, false}, Motion(DType::F32, 3)};
  reference.motion.add({values, moved, reference.unwritten, {false, false, true}});
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
    return compare(reference, values, poisoned, {}, Strictness::numbers, {}, {true, true, true, true}).kind;
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
  std::vector<std::int32_t> one = values;
  one[77] = 101;
  reference = reference_of(DType::I32, bytes_of(values), {bytes_of(values)});
  CHECK(compare(reference, bytes_of(one), {}, {}).kind == Verdict::Kind::wrong);
  reference.motion.from_floats = true;
  CHECK(compare(reference, bytes_of(one), {}, {}).kind == Verdict::Kind::right);
  CHECK(compare(reference, bytes_of(few), {}, {}).kind == Verdict::Kind::wrong);
}

TEST_CASE("as many elements may differ as jump when the inputs move further, but no more than 1 %") {
  const std::vector<std::int32_t> values(10'000, 100);
  const auto changed = [&](std::size_t first, std::size_t count) {
    std::vector<std::int32_t> v = values;
    std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(first), count, 101);
    return bytes_of(v);
  };
  const auto verdict = [&](std::size_t once, std::size_t further, std::size_t different) {
    const Bytes kept = bytes_of(values), moved = changed(0, once), moved_further = changed(0, further);
    ReferenceOutput r{DType::I32, kept, {}, Motion(DType::I32, values.size())};
    r.motion.add({r.values, moved, {}, {}});
    r.motion.add_further({r.values, moved_further, {}, {}}, 64);
    r.motion.settle(r.values);
    return compare(r, changed(5000, different), {}, {}).kind;
  };
  CHECK(verdict(0, 30, 31) == Verdict::Kind::right);
  CHECK(verdict(0, 30, 32) == Verdict::Kind::wrong);
  CHECK(verdict(4, 5, 9) == Verdict::Kind::right);
  CHECK(verdict(4, 5, 10) == Verdict::Kind::wrong);
  CHECK(verdict(4, 3000, 101) == Verdict::Kind::right);
  CHECK(verdict(4, 3000, 102) == Verdict::Kind::wrong);
}

TEST_CASE("if inputs lie exactly on decisions, few elements may differ although many jump") {
  // Half of the elements jump by 1, however far the inputs move: in integers, and in whole numbers as floats.
  const auto check = [](auto zero, DType dtype) {
    using T = decltype(zero);
    INFO(name(dtype));
    std::vector<T> values(10'000), moved, many, few, inside;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>(5 + i % 9);
    moved = many = few = inside = values;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      moved[i] -= 1;
      if (i % 8 == 0) many[i] += 1;
      if (i < 100) few[i] -= 1;
      if (i % 5 == 0) inside[i] -= 1;
    }
    const Bytes kept = bytes_of(values), once = bytes_of(moved);
    for (const bool by_errors_inside : {false, true}) {
      ReferenceOutput r{dtype, kept, {}, Motion(dtype, values.size())};
      r.motion.add({r.values, once, {}, {}});
      r.motion.add_further({r.values, once, {}, {}}, 64);
      CHECK(r.motion.is_unclear());
      r.motion.add_internal({r.values, by_errors_inside ? bytes_of(inside) : kept, {}, {}});
      r.motion.settle(r.values);
      CHECK(r.motion.on_ties() == !by_errors_inside);
      CHECK(compare(r, bytes_of(few), {}, {}).kind == Verdict::Kind::right);
      const Verdict::Kind wrong = compare(r, bytes_of(many), {}, {}).kind;
      CHECK((wrong == Verdict::Kind::wrong) == !by_errors_inside);
    }
  };
  check(std::int32_t{}, DType::I32);
  check(float{}, DType::F32);
}

TEST_CASE("integers that are as fine as floats are compared by their spreads and medians") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> values(10'000), moved, further, right, wrong;
  for (auto& v : values)
    v = static_cast<std::int32_t>(1'000'000 + random() % 40'000);
  moved = further = right = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    moved[i] += i % 100 == 0 ? 2 : 10;
    further[i] += 600;
    right[i] -= 40;
  }
  wrong = right;
  wrong[4321] += 1000;
  ReferenceOutput r{DType::I32, bytes_of(values), {}, Motion(DType::I32, values.size())};
  for (int run = 0; run < 4; ++run)
    r.motion.add({r.values, bytes_of(moved), {}, {}});
  r.motion.add_further({r.values, bytes_of(further), {}, {}}, 64);
  r.motion.settle(r.values);
  CHECK_FALSE(r.motion.on_ties());
  const Verdict v = compare(r, bytes_of(right), {}, {.factor = 6});
  INFO(v.error);
  CHECK(v.kind == Verdict::Kind::right);
  CHECK(compare(r, bytes_of(wrong), {}, {.factor = 6}).kind == Verdict::Kind::wrong);
}

TEST_CASE("doubles of any size are compared") {
  for (const double scale : {1e-280, 1e-60, 1.0, 1e60, 1e300}) {
    INFO(scale);
    std::vector<double> values(1000), moved, right, wrong;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = scale * (1 + static_cast<double>(i) * 1e-3);
    moved = right = wrong = values;
    for (std::size_t i = 0; i < values.size(); ++i)
      moved[i] *= 1 + 1e-14, right[i] *= 1 - 5e-14, wrong[i] *= 1 + 1e-12;
    const ReferenceOutput r = reference_of(DType::F64, bytes_of(values), {bytes_of(moved)});
    const Allowance allowance{.rounding = 0x1p-52};
    const Verdict v = compare(r, bytes_of(right), {}, allowance);
    CHECK(v.kind == Verdict::Kind::right);
    CHECK(v.compared.compared == values.size());
    CHECK(compare(r, bytes_of(wrong), {}, allowance).kind == Verdict::Kind::wrong);
  }
}

TEST_CASE("floats that no rounding error moves may differ by a few of their own only") {
  const std::vector<float> values(1000, 65536);
  std::vector<float> right = values, wrong = values;
  right[10] = 65536.02f;
  wrong[10] = 65535;
  const ReferenceOutput r = reference_of(DType::F32, floats(values), {floats(values)});
  CHECK(compare(r, floats(right), {}, {.roundings = 500}).kind == Verdict::Kind::right);
  CHECK(compare(r, floats(wrong), {}, {.roundings = 500}).kind == Verdict::Kind::wrong);
}

TEST_CASE("only the members of an output are compared and counted") {
  const ReferenceOutput r = reference_of(DType::F32, floats({1, 2, 3, 4}), {floats({1, 2, 3, 4})});
  const std::vector<bool> members{true, false, true, false};
  const Verdict v = compare(r, floats({1, 9, 3, NAN}), {}, {}, Strictness::all, members);
  CHECK(v.kind == Verdict::Kind::right);
  CHECK(v.compared.compared == 2);
  CHECK(v.compared.elements == 2);
  CHECK(compare(r, floats({1, 2, 9, 4}), {}, {}, Strictness::all, members).kind == Verdict::Kind::wrong);
}
