// Compares emitted math functions with references in double (for f32) and in long double (for f64).
#include "exact_gelu.h"
#include "test_seed.h"

#include <jit/cpu/other_cpus.h>
#include <jit/emit/llvm_test_jit.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <kiln/jit/emit/vector_math.h>
#include <random>
#include <vector>

using namespace kiln;
using emit::MathFn;

namespace {

struct Reference {
  MathFn fn;
  const char* name;
  long double (*wide)(long double, long double);
  double (*single)(double, double);
  double max_ulp_f32, max_ulp_f64;
};

template <class T> T sigmoid(T x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

#define KILN_REFERENCE(fn, expression, f32, f64)                                                             \
  {MathFn::fn,                                                                                               \
   #fn,                                                                                                      \
   [](long double x, long double y) -> long double {                                                         \
     (void)y;                                                                                                \
     return expression;                                                                                      \
   },                                                                                                        \
   [](double x, double y) -> double {                                                                        \
     (void)y;                                                                                                \
     return expression;                                                                                      \
   },                                                                                                        \
   f32,                                                                                                      \
   f64}

const Reference references[] = {
    KILN_REFERENCE(Exp, std::exp(x), 2, 4),          KILN_REFERENCE(Exp2, std::exp2(x), 2, 4),
    KILN_REFERENCE(Expm1, std::expm1(x), 2, 4),      KILN_REFERENCE(Log, std::log(x), 2, 4),
    KILN_REFERENCE(Log2, std::log2(x), 2, 4),        KILN_REFERENCE(Log1p, std::log1p(x), 2, 4),
    KILN_REFERENCE(Sin, std::sin(x), 2, 4),          KILN_REFERENCE(Cos, std::cos(x), 2, 4),
    KILN_REFERENCE(Tan, std::tan(x), 2, 4),          KILN_REFERENCE(Tanh, std::tanh(x), 2, 4),
    KILN_REFERENCE(Erf, std::erf(x), 2, 4),          KILN_REFERENCE(Sigmoid, sigmoid(x), 2, 4),
    KILN_REFERENCE(Gelu, test::exact_gelu(x), 8, 8), KILN_REFERENCE(Sqrt, std::sqrt(x), 0.501, 0.501),
    KILN_REFERENCE(Rsqrt, 1 / std::sqrt(x), 2, 4),   KILN_REFERENCE(Floor, std::floor(x), 0, 0),
    KILN_REFERENCE(Ceil, std::ceil(x), 0, 0),        KILN_REFERENCE(Trunc, std::trunc(x), 0, 0),
    KILN_REFERENCE(Round, std::nearbyint(x), 0, 0),  KILN_REFERENCE(Asin, std::asin(x), 2, 4),
    KILN_REFERENCE(Acos, std::acos(x), 2, 4),        KILN_REFERENCE(Atan, std::atan(x), 2, 4),
    KILN_REFERENCE(Pow, std::pow(x, y), 2, 4),       KILN_REFERENCE(Atan2, std::atan2(x, y), 2, 4),
};

template <class T> using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// The difference between `actual` and the exact `expected`, in units in the last place of the result. It is
// infinite if one is NaN and the other is not, or if infinities or the signs of zeros differ. Whether the
// result overflows is decided by the rounded reference.
template <class T, class Wide> double ulp_error(T actual, Wide expected) {
  const double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(actual))
    return std::isnan(expected) && std::isnan(actual) ? 0 : wrong;
  const T rounded = static_cast<T>(expected);
  if (std::signbit(actual) != std::signbit(rounded)) return wrong;
  if (actual == rounded && (std::isinf(actual) || actual == 0)) return 0;
  const int least = std::numeric_limits<T>::min_exponent - 1;
  const Wide limit = std::ldexp(Wide(1), std::numeric_limits<T>::max_exponent);
  const Wide finite_actual = std::isinf(actual) ? std::copysign(limit, Wide(actual)) : Wide(actual);
  if (std::isinf(expected)) return wrong;
  const int exponent = expected == 0 ? least : std::max(std::ilogb(expected), least);
  return static_cast<double>(std::abs(finite_actual - expected) /
                             std::ldexp(Wide(1), exponent - (std::numeric_limits<T>::digits - 1)));
}

template <class T> struct Worst {
  double error = 0;
  T x = 0, y = 0, actual = 0;
};

template <class T> using Loop = void(const T*, const T*, T*, std::int64_t);

// Compiles a loop for each function, over vectors of `lanes` elements.
template <class T> class MathJit {
public:
  MathJit(const test::TestTarget& target, unsigned lanes, const std::vector<MathFn>& fns,
          bool fast_math = false)
      : jit_(target), lanes_(lanes) {
    const emit::MathOptions options = emit::math_options(jit_.target_machine());
    jit_.add([&](llvm::Module& module) {
      auto& context = module.getContext();
      llvm::Type* type = sizeof(T) == 4 ? llvm::Type::getFloatTy(context) : llvm::Type::getDoubleTy(context);
      for (MathFn fn : fns)
        test::emit_elementwise_loop(module, symbol(fn), type, type, lanes,
                                    [&](llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
                                      if (fast_math) b.setFastMathFlags(llvm::FastMathFlags::getFast());
                                      const bool two = emit::operand_count(fn) == 2;
                                      return emit::emit_math(b, options, fn, x, two ? y : nullptr);
                                    });
    });
  }

  static std::string symbol(MathFn fn) { return fmt::format("f{}", static_cast<int>(fn)); }
  const std::string& assembly() const { return jit_.assembly(); }
  unsigned lanes() const { return lanes_; }

  // x and y are padded to whole vectors.
  std::vector<T> run(MathFn fn, std::vector<T> x, std::vector<T> y) {
    const std::size_t count = x.size(), vectors = (count + lanes_ - 1) / lanes_;
    x.resize(vectors * lanes_, T(1));
    y.resize(vectors * lanes_, T(1));
    std::vector<T> out(vectors * lanes_, T(-7));
    jit_.lookup<Loop<T>>(symbol(fn))(x.data(), y.data(), out.data(), static_cast<std::int64_t>(vectors));
    out.resize(count);
    return out;
  }

private:
  test::TestJit jit_;
  unsigned lanes_;
};

template <class T>
Worst<T> worst_error(MathJit<T>& jit, const Reference& r, const std::vector<T>& x, const std::vector<T>& y) {
  Worst<T> worst;
  const std::vector<T> actual = jit.run(r.fn, x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double error = 0;
    auto measure = [&](auto expected) {
      // A correctly rounded result has an error of at most half an ulp, so a worse one is known already.
      if (worst.error >= 0.5 && actual[i] == static_cast<T>(expected) && actual[i] != 0) return;
      error = ulp_error(actual[i], expected);
    };
    if constexpr (sizeof(T) == 4)
      measure(r.single(x[i], y[i]));
    else
      measure(r.wide(x[i], y[i]));
    if (error > worst.error) worst = {error, x[i], y[i], actual[i]};
  }
  return worst;
}

template <class T> T from_bits(Bits<T> bits) { return std::bit_cast<T>(bits); }

template <class T> std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {T(0),
                      T(0.25),
                      T(0.5),
                      T(1),
                      T(1.5),
                      T(2),
                      T(2.5),
                      T(3),
                      T(4),
                      T(5),
                      T(7.5),
                      T(10),
                      T(64),
                      T(88.7),
                      T(89),
                      T(100),
                      T(103.9),
                      T(709.7),
                      T(710),
                      T(745),
                      T(1000),
                      T(0.346),
                      T(0.347),
                      T(0.6249),
                      T(0.625),
                      T(0.626),
                      T(3.9),
                      T(6),
                      T(1.5707963267948966),
                      T(3.141592653589793),
                      T(0.7853981633974483),
                      T(65535.5),
                      T(65536),
                      T(1048576),
                      T(1048577),
                      L::infinity(),
                      L::quiet_NaN(),
                      L::max(),
                      L::min(),
                      L::denorm_min(),
                      L::epsilon(),
                      L::min() / 2,
                      T(8388607.5),
                      T(4503599627370495.5)};
  const std::size_t count = v.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(v[i])) {
      v.push_back(std::nextafter(v[i], L::infinity()));
      v.push_back(std::nextafter(v[i], -L::infinity()));
    }
  }
  for (std::size_t i = 0, n = v.size(); i < n; ++i)
    v.push_back(-v[i]);
  return v;
}

// The arguments of one sweep: all pairs of special values, every `step`-th bit pattern, and random values in
// the ranges in which functions change.
template <class T> struct Arguments {
  std::vector<T> x, y;
};
template <class T> Arguments<T> arguments(std::mt19937_64& random, std::uint64_t patterns) {
  Arguments<T> a;
  auto push = [&](T x, T y) {
    a.x.push_back(x);
    a.y.push_back(y);
  };
  const std::vector<T> special = special_values<T>();
  for (T x : special)
    for (T y : special)
      push(x, y);
  const std::uint64_t total_shift = sizeof(T) * 8;
  const std::uint64_t step =
      (total_shift == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << 32) - 1) / patterns;
  const std::uint64_t first = random() % step;
  std::uniform_real_distribution<double> unit(-1, 1);
  for (std::uint64_t i = 0; i < patterns; ++i) {
    const T x = from_bits<T>(static_cast<Bits<T>>(first + i * step));
    // For pow: an exponent whose result is a normal number, often an integer.
    double y = unit(random) * 1.05 * std::numeric_limits<T>::max_exponent /
               std::max(1e-3, std::abs(std::log2(std::abs(double(x)))));
    if (i % 4 == 0) y = std::nearbyint(y);
    push(x, std::isfinite(y) ? T(y) : T(2));
  }
  for (double range : {1.0, 4.0, 20.0, 100.0, 1000.0, 1e5})
    for (std::uint64_t i = 0; i < patterns / 8; ++i)
      push(T(unit(random) * range), T(unit(random) * range));
  for (std::uint64_t i = 0; i < patterns / 8; ++i)
    push(T(1 + unit(random) * 1e-3), T(unit(random) * 1e4));
  return a;
}

std::vector<MathFn> all_functions() {
  std::vector<MathFn> fns;
  for (const Reference& r : references)
    fns.push_back(r.fn);
  return fns;
}

template <class T> void check_all(MathJit<T>& jit, const Arguments<T>& a, const std::string& what) {
  for (const Reference& r : references) {
    const Worst<T> worst = worst_error(jit, r, a.x, a.y);
    INFO(what << ", " << jit.lanes() << " lanes, " << r.name << "(" << std::hexfloat << worst.x << ", "
              << worst.y << ") = " << worst.actual);
    CHECK(worst.error <= (sizeof(T) == 4 ? r.max_ulp_f32 : r.max_ulp_f64));
    if (std::getenv("KILN_TEST_VERBOSE"))
      std::printf("%s %u lanes %-8s max %.3f ulp at %a, %a -> %a\n", what.c_str(), jit.lanes(), r.name,
                  worst.error, double(worst.x), double(worst.y), double(worst.actual));
  }
}

} // namespace

TEST_CASE("vector math is accurate for f32 on this machine") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto a = arguments<float>(random, 1 << 16);
  for (unsigned lanes : {1u, 4u, 8u, 16u, 32u}) {
    MathJit<float> jit({}, lanes, all_functions());
    check_all(jit, a, "host f32");
  }
}

TEST_CASE("vector math is accurate for f64 on this machine") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto a = arguments<double>(random, 1 << 14);
  for (unsigned lanes : {1u, 2u, 4u, 8u, 16u}) {
    MathJit<double> jit({}, lanes, all_functions());
    check_all(jit, a, "host f64");
  }
}

TEST_CASE("vector math keeps its accuracy on AVX2 and without FMA") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto single = arguments<float>(random, 1 << 14);
  const auto wide = arguments<double>(random, 1 << 13);
  for (const std::string cpu : {"x86-64-v3", "x86-64-v2"}) {
    if (!test::runnable_target(cpu)) continue;
    for (unsigned lanes : {1u, 3u, 8u}) {
      MathJit<float> jit({.cpu = cpu}, lanes, all_functions());
      check_all(jit, single, cpu + " f32");
    }
    MathJit<double> jit({.cpu = cpu}, 4, all_functions());
    check_all(jit, wide, cpu + " f64");
  }
}

TEST_CASE("vector math needs no library function") {
  const float x[8] = {1e30f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  for (const char* cpu : {"host", "x86-64-v3", "x86-64-v2"})
    for (unsigned lanes : {1u, 8u}) {
      if (!test::runnable_target(cpu)) continue;
      // With the process's symbols hidden a call to sinf or fmaf would not link.
      const test::TestTarget target = {.cpu = cpu, .process_symbols = false};
      MathJit<float> single(target, lanes, all_functions());
      MathJit<double> wide(target, lanes, all_functions());
      const std::vector<float> result = single.run(MathFn::Sin, {x, x + 8}, {x, x + 8});
      CHECK(std::abs(result[0] - std::sin(1e30f)) < 1e-6);
      CHECK(std::abs(wide.run(MathFn::Sin, {1e300}, {1})[0] - std::sin(1e300)) < 1e-14);
    }
}

TEST_CASE("fast-math flags of the builder do not change vector math") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto a = arguments<float>(random, 1 << 12);
  MathJit<float> jit({}, 16, all_functions(), /*fast_math=*/true);
  check_all(jit, a, "fast-math f32");
}

TEST_CASE("vector math can be emitted in the middle of a finished block") {
  test::TestJit jit;
  jit.add([&](llvm::Module& module) {
    llvm::IRBuilder<> b(module.getContext());
    auto* type = llvm::FunctionType::get(b.getFloatTy(), {b.getFloatTy(), b.getInt1Ty()}, false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "f", module);
    auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", function);
    auto* other = llvm::BasicBlock::Create(module.getContext(), "other", function);
    auto* exit = llvm::BasicBlock::Create(module.getContext(), "exit", function);
    b.SetInsertPoint(exit);
    auto* phi = b.CreatePHI(b.getFloatTy(), 2);
    b.CreateRet(phi);
    b.SetInsertPoint(other);
    b.CreateBr(exit);
    b.SetInsertPoint(entry);
    auto* sum = llvm::cast<llvm::Instruction>(
        b.CreateFAdd(function->getArg(0), llvm::ConstantFP::get(b.getFloatTy(), 1)));
    b.CreateCondBr(function->getArg(1), exit, other);
    phi->addIncoming(sum, entry);
    phi->addIncoming(function->getArg(0), other);
    b.SetInsertPoint(sum);
    sum->setOperand(
        0, emit::emit_math(b, emit::math_options(jit.target_machine()), MathFn::Sin, function->getArg(0)));
  });
  auto* f = jit.lookup<float(float, bool)>("f");
  for (float x : {0.5f, 1e20f}) {
    CHECK(f(x, true) == Approx(1 + std::sin(double(x))));
    CHECK(f(x, false) == x);
  }
}

// Passes all 2^32 arguments to each function, which takes a minute or more for each: unit_tests
// "[exhaustive]". KILN_TEST_FUNCTION=Exp selects one function, KILN_TEST_STRIDE=16 takes every 16th argument,
// and KILN_TEST_CPU=x86-64-v2 compiles for another CPU.
TEST_CASE("exhaustive: every float through every function", "[.][exhaustive]") {
  const char* cpu = std::getenv("KILN_TEST_CPU");
  MathJit<float> jit({.cpu = cpu ? cpu : "host"}, 16, all_functions());
  const char *only = std::getenv("KILN_TEST_FUNCTION"), *stride_text = std::getenv("KILN_TEST_STRIDE");
  const std::uint64_t stride = stride_text ? std::stoul(stride_text) : 1;
  for (const Reference& r : references) {
    if (emit::operand_count(r.fn) == 2 || (only && std::string(only) != r.name)) continue;
    Worst<float> worst;
    std::vector<float> x(1 << 16), y(1 << 16);
    for (std::uint64_t start = 0; start < std::uint64_t{1} << 32; start += x.size() * stride) {
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = from_bits<float>(static_cast<std::uint32_t>(start + i * stride));
      const Worst<float> part = worst_error(jit, r, x, y);
      if (part.error > worst.error) worst = part;
    }
    fmt::print("{:8} max {:.3f} ulp at {:a}\n", r.name, worst.error, worst.x);
    std::fflush(stdout);
    CHECK(worst.error <= r.max_ulp_f32);
  }
}
