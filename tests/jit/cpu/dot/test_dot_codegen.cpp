// Tests products of every element type, stride and instruction set against double precision.
#include "amx_emulation.h"
#include "dot_harness.h"
#include "dsl/guarded_memory.h"
#include "left_out.h"
#include "test_seed.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace kiln;
using cpu::DotShape;
using cpu::DotStrides;
using test::CompiledDot;
using test::GuardedMemory;

// The value of a small float's bits, by the definition of its format.
double small_float(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
  const double sign = bits >> (mantissa_bits + exponent_bits) & 1U ? -1.0 : 1.0;
  const bool top = exponent == (1 << exponent_bits) - 1;
  if (top && has_infinity)
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (top && mantissa == (1U << mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1U << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T> T load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

double element(DType t, const char* p) {
  switch (t) {
  case DType::F32: return load<float>(p);
  case DType::F64: return load<double>(p);
  case DType::I32: return load<std::int32_t>(p);
  case DType::I8: return load<std::int8_t>(p);
  case DType::U8: return load<std::uint8_t>(p);
  case DType::F16: return small_float(load<std::uint16_t>(p), 5, 10, true);
  case DType::BF16: return small_float(load<std::uint16_t>(p), 8, 7, true);
  case DType::F8E4M3: return small_float(load<std::uint8_t>(p), 4, 3, false);
  case DType::F8E5M2: return small_float(load<std::uint8_t>(p), 5, 2, true);
  default: FAIL("no such element type"); return 0;
  }
}

using Random = std::mt19937_64;

// Wide types get values between -1 and 1, narrow types any finite value, including denormals.
void random_element(DType t, char* p, Random& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  if (t == DType::F32) {
    const auto value = static_cast<float>(uniform(random));
    std::memcpy(p, &value, sizeof value);
  } else if (t == DType::F64) {
    const double value = uniform(random);
    std::memcpy(p, &value, sizeof value);
  } else if (t == DType::BF16) {
    const auto value = static_cast<float>(uniform(random));
    std::memcpy(p, reinterpret_cast<const char*>(&value) + 2, 2);
  } else {
    do {
      const std::uint64_t bits = random();
      std::memcpy(p, &bits, static_cast<std::size_t>(size_of(t)));
    } while (!std::isfinite(element(t, p)));
  }
}

// A matrix in guarded memory. Between its elements are NaNs (or arbitrary integers).
struct Matrix {
  DType type;
  std::int64_t rows, columns, row_stride, column_stride;
  std::int64_t first = 0; // index of element (0, 0) in memory
  std::int64_t count = 0; // number of elements of memory
  std::unique_ptr<GuardedMemory> memory;

  Matrix(DType t, std::int64_t r, std::int64_t c, std::int64_t rs, std::int64_t cs, Random& random)
      : type(t), rows(r), columns(c), row_stride(rs), column_stride(cs) {
    if (rows > 0 && columns > 0) {
      std::int64_t low = 0, high = 0;
      for (std::int64_t reach : {(rows - 1) * rs, (columns - 1) * cs})
        (reach < 0 ? low : high) += reach;
      first = -low;
      count = high - low + 1;
    }
    const auto place = random() & 1U ? GuardedMemory::Place::AtEnd : GuardedMemory::Place::AtStart;
    memory = std::make_unique<GuardedMemory>(static_cast<std::size_t>(count * size_of(t)), place, 1);
    std::memset(start(), 0xff, static_cast<std::size_t>(count * size_of(t)));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        random_element(t, at(i, j), random);
  }
  char* at(std::int64_t i, std::int64_t j) {
    return start() + (first + i * row_stride + j * column_stride) * size_of(type);
  }
  double value(std::int64_t i, std::int64_t j) { return element(type, at(i, j)); }
  char* start() const { return reinterpret_cast<char*>(memory->data()); }
  std::vector<char> bytes() const { return {start(), start() + count * size_of(type)}; }
};

struct Strides {
  std::int64_t row, column;
};

Strides random_strides(DotStrides known, std::int64_t rows, std::int64_t columns, Random& random) {
  const auto gap = static_cast<std::int64_t>(random() % 9);
  const auto sign = [&] { return random() % 4 == 0 ? -1 : 1; };
  switch (known) {
  case DotStrides::UnitInner: return {sign() * (columns + gap), 1};
  case DotStrides::UnitOuter: return {1, sign() * (rows + gap)};
  case DotStrides::Any: break;
  }
  switch (random() % 5) {
  case 0: return {sign() * (columns + gap), 1};
  case 1: return {1, sign() * (rows + gap)};
  case 2: return {sign() * (2 * columns + gap), sign() * 2};
  case 3: return {0, sign()};
  default: return {sign() * 3, sign() * (3 * rows + gap)};
  }
}

struct Extents {
  std::int64_t m, n, k;
};

double epsilon(DType accumulator) {
  return accumulator == DType::F64 ? std::ldexp(1.0, -52) : std::ldexp(1.0, -23);
}

// Checks one random product of these extents: every element is within the error bound, and nothing else is
// written.
void check_product(const CompiledDot& dot, const DotShape& shape, Extents e, Random& random) {
  const DType accumulator = cpu::dot_accumulator(shape.a, shape.b);
  const bool accumulate = random() & 1U;
  const Strides as = random_strides(shape.a_strides, e.m, e.k, random);
  const Strides bs = random_strides(shape.b_strides, e.k, e.n, random);
  const auto c_stride = e.n + static_cast<std::int64_t>(random() % 20);
  CAPTURE(e.m, e.n, e.k, as.row, as.column, bs.row, bs.column, c_stride, accumulate);
  Matrix a(shape.a, e.m, e.k, as.row, as.column, random);
  Matrix b(shape.b, e.k, e.n, bs.row, bs.column, random);
  Matrix c(accumulator, e.m, e.n, c_stride, 1, random);
  if (!accumulate && is_float(accumulator)) // must not be read, since a NaN would remain
    for (std::int64_t i = 0; i < e.m; ++i)
      std::memset(c.at(i, 0), 0xff, static_cast<std::size_t>(e.n * size_of(accumulator)));
  const std::vector<char> a_before = a.bytes(), b_before = b.bytes(), c_before = c.bytes();
  GuardedMemory scratch(static_cast<std::size_t>(dot.scratch_bytes), GuardedMemory::Place::AtEnd, 1);
  std::memset(scratch.data(), 0xff, static_cast<std::size_t>(dot.scratch_bytes));

  dot.run(a.at(0, 0), as.row, as.column, b.at(0, 0), bs.row, bs.column, c.at(0, 0), c_stride, e.m, e.n, e.k,
          accumulate, scratch.data(), nullptr, 0);

  CHECK(a.bytes() == a_before);
  CHECK(b.bytes() == b_before);
  std::vector<double> av(static_cast<std::size_t>(e.m * e.k)), bv(static_cast<std::size_t>(e.k * e.n));
  for (std::int64_t i = 0; i < e.m; ++i)
    for (std::int64_t p = 0; p < e.k; ++p)
      av[static_cast<std::size_t>(i * e.k + p)] = a.value(i, p);
  for (std::int64_t p = 0; p < e.k; ++p)
    for (std::int64_t j = 0; j < e.n; ++j)
      bv[static_cast<std::size_t>(p * e.n + j)] = b.value(p, j);
  std::vector<char> expected_gaps = c_before;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < e.m; ++i)
    for (std::int64_t j = 0; j < e.n; ++j) {
      const std::size_t offset = static_cast<std::size_t>(c.at(i, j) - c.start());
      double sum = accumulate ? element(accumulator, c_before.data() + offset) : 0, size = std::fabs(sum);
      for (std::int64_t p = 0; p < e.k; ++p) {
        const double product =
            av[static_cast<std::size_t>(i * e.k + p)] * bv[static_cast<std::size_t>(p * e.n + j)];
        sum += product;
        size += std::fabs(product);
      }
      if (accumulator == DType::I32) {
        const auto wrapped =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(sum)));
        wrong += c.value(i, j) != wrapped;
      } else {
        const double bound = static_cast<double>(e.k + 2) * epsilon(accumulator) * size + 1e-300;
        wrong += !(std::fabs(c.value(i, j) - sum) <= bound);
      }
      std::memcpy(expected_gaps.data() + offset, c.at(i, j), static_cast<std::size_t>(size_of(accumulator)));
    }
  CHECK(wrong == 0);
  CHECK(c.bytes() == expected_gaps);
}

std::int64_t up_to(std::int64_t limit, Random& random) {
  return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

void check_shape(const DotShape& shape, const std::string& cpu, int repeats, Random& random) {
  if (test::left_out(random)) return;
  CAPTURE(name(shape.a), name(shape.b), shape.m, shape.n, shape.k, static_cast<int>(shape.a_strides),
          static_cast<int>(shape.b_strides), cpu);
  const CompiledDot dot(shape, cpu);
  check_product(dot, shape, {shape.m, shape.n, shape.k}, random);
  for (int i = 0; i < repeats; ++i)
    check_product(dot, shape, {up_to(shape.m, random), up_to(shape.n, random), up_to(shape.k, random)},
                  random);
}

constexpr DType floats[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2};

const char* const processors[] = {"host", "x86-64", "haswell", "skylake-avx512"};

} // namespace

TEST_CASE("dot of every element type agrees with double precision on ragged sizes and any strides") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const char* cpu : processors) {
    if (!test::host_runs(cpu)) continue;
    for (DType t : floats)
      check_shape({t, t, 37, 150, 70}, cpu, 12, random);
    check_shape({DType::I8, DType::I8, 37, 150, 70}, cpu, 12, random);
    check_shape({DType::U8, DType::U8, 20, 100, 70}, cpu, 12, random);
    check_shape({DType::U8, DType::I8, 20, 100, 70}, cpu, 12, random);
  }
}

TEST_CASE("dot of mixed floating-point types accumulates in the wider one") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (DType a : floats)
    for (DType b : floats)
      if (a != b) check_shape({a, b, 14, 80, 33}, "host", 4, random);
}

TEST_CASE("dot agrees for every known stride and every register tile") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const char* cpu : {"host", "x86-64", "haswell"}) {
    if (!test::host_runs(cpu)) continue;
    for (DotStrides a : {DotStrides::UnitInner, DotStrides::UnitOuter})
      for (DotStrides b : {DotStrides::UnitInner, DotStrides::UnitOuter}) {
        check_shape({DType::F32, DType::F32, 50, 130, 40, a, b}, cpu, 6, random);
        check_shape({DType::I8, DType::U8, 50, 130, 40, a, b}, cpu, 6, random);
        check_shape({DType::F16, DType::F16, 50, 130, 40, a, b}, cpu, 6, random);
      }
    for (std::int64_t m : {1, 2, 3, 5, 7, 8})
      for (std::int64_t n : {1, 15, 16, 33, 48, 64, 200})
        check_shape({DType::F32, DType::F32, m, n, 19, DotStrides::UnitInner, DotStrides::UnitInner}, cpu, 2,
                    random);
  }
}

TEST_CASE("skinny dot agrees, with rows or columns of B in place") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const char* cpu : {"host", "haswell", "x86-64"}) {
    if (!test::host_runs(cpu)) continue;
    for (DType t : floats)
      for (DotStrides b : {DotStrides::UnitInner, DotStrides::UnitOuter, DotStrides::Any}) {
        check_shape({t, t, up_to(4, random), 150, 100, DotStrides::Any, b}, cpu, 2, random);
        check_shape({t, t, 1, up_to(30, random), 100, DotStrides::Any, b}, cpu, 2, random);
        check_shape({t, t, 32, 70, 600, DotStrides::UnitInner, b}, cpu, 1, random);
      }
  }
  for (const DotShape& shape :
       {DotShape{DType::F32, DType::F32, 3, 2100, 530, DotStrides::UnitInner, DotStrides::UnitInner},
        DotShape{DType::BF16, DType::F32, 2, 1100, 530, DotStrides::UnitOuter, DotStrides::UnitInner},
        DotShape{DType::F32, DType::F32, 1, 2901, 2900, DotStrides::Any, DotStrides::UnitOuter},  // in memory
        DotShape{DType::F32, DType::F32, 3, 2901, 2900, DotStrides::Any, DotStrides::UnitOuter}}) // in memory
    check_shape(shape, "host", 2, random);
}

TEST_CASE("dot divides K and M into chunks that fit the scratch") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  check_shape({DType::F32, DType::F32, 1000, 70, 1100}, "host", 2, random);
  check_shape({DType::F32, DType::F32, 1100, 70, 1101, DotStrides::UnitOuter}, "host", 2, random);
  check_shape({DType::BF16, DType::BF16, 1100, 70, 1101, DotStrides::UnitOuter}, "host", 2, random);
  check_shape({DType::BF16, DType::BF16, 600, 70, 1101}, "host", 2, random);
  check_shape({DType::I8, DType::I8, 600, 70, 1101}, "host", 2, random);
  check_shape({DType::I8, DType::I8, 4, 300, 501}, "host", 8, random); // short chunks of K
  const std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
  const DotShape open{DType::F16, DType::F32, unknown, unknown, unknown};
  const CompiledDot dot(open, "host");
  check_product(dot, open, {500, 90, 700}, random);
}

TEST_CASE("dot packs a large B of any type, in whole groups, while it multiplies the first rows") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const char* cpu : {"host", "znver4"}) {
    if (!test::host_runs(cpu)) continue;
    for (DotStrides b : {DotStrides::UnitInner, DotStrides::Any}) {
      check_shape({DType::F32, DType::F32, 100, 700, 300, DotStrides::UnitInner, b}, cpu, 2, random);
      check_shape({DType::BF16, DType::BF16, 20, 400, 301, DotStrides::Any, b}, cpu, 2, random);
    }
    // A is packed as well, in one chunk of K and one block of rows, and in several.
    check_shape({DType::F16, DType::F32, 200, 500, 400, DotStrides::UnitOuter, DotStrides::UnitInner}, cpu, 1,
                random);
    check_shape({DType::F16, DType::F32, 1100, 100, 1030, DotStrides::UnitOuter, DotStrides::UnitInner}, cpu,
                0, random);
    for (DType t : floats)
      check_shape({DType::F32, t, 40, 450, 330, DotStrides::UnitInner, DotStrides::UnitInner}, cpu, 1,
                  random);
    check_shape({DType::BF16, DType::BF16, 130, 200, 1100, DotStrides::UnitInner, DotStrides::UnitInner}, cpu,
                1, random);
  }
}

TEST_CASE("dot blocks rows of A on CPUs with 16 registers, in place or packed") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const char* cpu : {"haswell", "x86-64"}) {
    if (!test::host_runs(cpu)) continue;
    for (DotStrides a : {DotStrides::UnitInner, DotStrides::UnitOuter, DotStrides::Any})
      check_shape({DType::F32, DType::F32, 330, 140, 800, a}, cpu, 2, random); // rows near and far apart
    check_shape({DType::F32, DType::F32, 200, 1060, 420, DotStrides::UnitInner, DotStrides::UnitInner}, cpu,
                1, random); // more columns than are packed at a time
    check_shape({DType::F32, DType::F32, 100, 300, 700}, cpu, 2, random); // one block of rows
    check_shape({DType::F16, DType::F32, 330, 100, 700, DotStrides::UnitInner}, cpu, 1,
                random); // few columns
    check_shape({DType::F64, DType::F64, 330, 140, 420, DotStrides::Any, DotStrides::UnitOuter}, cpu, 1,
                random);
    check_shape({DType::BF16, DType::F32, 160, 140, 801}, cpu, 1, random);
    check_shape({DType::U8, DType::I8, 160, 140, 801, DotStrides::UnitOuter}, cpu, 1, random);
  }
}

TEST_CASE("dot of an empty extent adds nothing, or writes zeros, and accesses nothing else") {
  const CompiledDot dot({DType::F32, DType::F32, 8, 8, 8}, "host");
  std::vector<float> c(64, 3.0F);
  dot.run(nullptr, 8, 1, nullptr, 8, 1, c.data(), 8, 8, 8, 0, true, nullptr, nullptr, 0);
  CHECK(c == std::vector<float>(64, 3.0F));
  for (std::int64_t none : {0, -5}) {
    dot.run(nullptr, 8, 1, nullptr, 8, 1, c.data(), 8, none, 8, 8, false, nullptr, nullptr, 0);
    dot.run(nullptr, 8, 1, nullptr, 8, 1, c.data(), 8, 8, none, 8, false, nullptr, nullptr, 0);
  }
  CHECK(c == std::vector<float>(64, 3.0F));
  dot.run(nullptr, 8, 1, nullptr, 8, 1, c.data(), 8, 7, 5, 0, false, nullptr, nullptr, 0);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t j = 0; j < 8; ++j)
      CHECK(c[i * 8 + j] == (i < 7 && j < 5 ? 0.0F : 3.0F));
}

TEST_CASE("dot propagates NaN and infinity to their rows and columns only") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* cpu : processors) {
    if (!test::host_runs(cpu)) continue;
    CAPTURE(cpu);
    for (std::int64_t b_column_stride : {1, 11}) {
      const std::int64_t m = 9, n = 70, k = 11;
      const CompiledDot dot({DType::F32, DType::F32, m, n, k}, cpu);
      std::vector<float> a(static_cast<std::size_t>(m * k), 0.5F), b(static_cast<std::size_t>(k * n), 0.25F);
      std::vector<float> c(static_cast<std::size_t>(m * n), nan);
      std::vector<char> scratch(static_cast<std::size_t>(dot.scratch_bytes), static_cast<char>(0xff));
      const std::int64_t b_row_stride = b_column_stride == 1 ? n : 1;
      const auto p = static_cast<std::int64_t>(random() % k), j = static_cast<std::int64_t>(random() % n);
      const auto i = static_cast<std::int64_t>(random() % m);
      a[static_cast<std::size_t>(i * k + p)] = infinity;
      b[static_cast<std::size_t>(((p + 1) % k) * b_row_stride + j * b_column_stride)] = nan;
      dot.run(a.data(), k, 1, b.data(), b_row_stride, b_column_stride, c.data(), n, m, n, k, false,
              scratch.data(), nullptr, 0);
      for (std::int64_t r = 0; r < m; ++r)
        for (std::int64_t s = 0; s < n; ++s) {
          const float value = c[static_cast<std::size_t>(r * n + s)];
          const bool right = s == j ? std::isnan(value) : r == i ? value == infinity : value == 11 * 0.125F;
          if (!right) FAIL("element " << r << ", " << s << " is " << value);
        }
    }
  }
}

TEST_CASE("dot of every narrow float value converts it exactly") {
  for (const char* cpu : processors) {
    if (!test::host_runs(cpu)) continue;
    for (DType t : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
      CAPTURE(cpu, name(t));
      const int values = size_of(t) == 1 ? 256 : 65536;
      const CompiledDot dot({t, DType::F32, values, 1, 1, DotStrides::UnitInner, DotStrides::UnitInner}, cpu);
      std::vector<char> a(static_cast<std::size_t>(values * size_of(t)));
      for (int i = 0; i < values; ++i)
        std::memcpy(a.data() + i * size_of(t), &i, static_cast<std::size_t>(size_of(t)));
      const float one = 1;
      std::vector<float> c(static_cast<std::size_t>(values));
      std::vector<char> scratch(static_cast<std::size_t>(dot.scratch_bytes));
      dot.run(a.data(), 1, 1, &one, 1, 1, c.data(), 1, values, 1, 1, false, scratch.data(), nullptr, 0);
      int wrong = 0;
      for (int i = 0; i < values; ++i) {
        const double exact = element(t, a.data() + i * size_of(t)), got = c[static_cast<std::size_t>(i)];
        wrong += std::isnan(exact) ? !std::isnan(got) : got != exact;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("dot agrees without the dot product instructions of bf16 and of bytes") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (DType t : {DType::BF16, DType::I8, DType::U8}) {
    CAPTURE(name(t));
    const DotShape shape{t, t, 50, 130, 77};
    const CompiledDot dot(shape, "host",
                          [](cpu::DotTarget& target) { target.bf16_dot = target.vnni = false; });
    for (int i = 0; i < 20; ++i)
      check_product(dot, shape, {up_to(50, random), up_to(130, random), up_to(77, random)}, random);
  }
}

TEST_CASE("dot agrees with AMX, for sizes that fill its tiles and for others") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  struct Types {
    DType a, b;
  };
  for (auto [x, y] :
       {Types{DType::BF16, DType::BF16}, Types{DType::I8, DType::I8}, Types{DType::I8, DType::U8},
        Types{DType::U8, DType::I8}, Types{DType::U8, DType::U8}}) {
    CAPTURE(name(x), name(y));
    struct Sizes {
      std::int64_t m;
      DotStrides a_strides;
    };
    for (auto [m, a_strides] : {Sizes{150, DotStrides::UnitInner}, Sizes{150, DotStrides::UnitOuter},
                                Sizes{150, DotStrides::Any}, Sizes{29, DotStrides::UnitInner}}) {
      CAPTURE(m, static_cast<int>(a_strides));
      const DotShape shape{x, y, m, 200, 1200, a_strides};
      const CompiledDot dot(
          shape, "host",
          [](cpu::DotTarget& target) {
            target.amx_bf16 = target.bf16_dot;
            target.amx_int8 = target.vnni;
          },
          test::Amx::Emulated);
      if (!dot.target.amx_bf16 || !dot.target.amx_int8) {
        WARN("skipped: this CPU lacks the dot products of bf16 and of bytes, which compute what AMX leaves");
        return;
      }
      // Rows that do not fill a tile use one as well.
      for (std::int64_t rows : {m > 64 ? 64 : 16, m > 64 ? 105 : 29}) {
        const std::int64_t before = test::emulated_tile_products();
        check_product(dot, shape, {rows, 96, 256}, random);
        CHECK(test::emulated_tile_products() - before ==
              (rows + 15) / 16 * (96 / 16) * (256 * size_of(x) / 64));
      }
      for (int i = 0; i < 8; ++i)
        check_product(dot, shape, {up_to(m, random), up_to(200, random), up_to(300, random)}, random);
    }
  }
}

TEST_CASE("dot agrees without the instructions that only one vendor's processors have") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I8, DType::U8}) {
    CAPTURE(name(t));
    const DotShape shape{t, t, 21, 50, 40};
    const CompiledDot dot(shape, "host", [](cpu::DotTarget& target) { target = {}; });
    for (int i = 0; i < 6; ++i)
      check_product(dot, shape, {up_to(21, random), up_to(50, random), up_to(40, random)}, random);
  }
}
