// Compares emitted number conversions with those of the host (dsl/float_bits.h) and with C++ casts.
#include "left_out.h"
#include "test_seed.h"

#include <jit/cpu/other_cpus.h>
#include <jit/emit/llvm_test_jit.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <kiln/dsl/float_bits.h>
#include <kiln/jit/emit/float_convert.h>
#include <random>
#include <vector>

using namespace kiln;

namespace {

constexpr DType floats[] = {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3, DType::F8E5M2};
constexpr DType integers[] = {DType::I8, DType::I16, DType::I32, DType::I64,
                              DType::U8, DType::U16, DType::U32, DType::U64};

llvm::Type* stored_type(llvm::LLVMContext& context, DType t) {
  if (t == DType::F32) return llvm::Type::getFloatTy(context);
  if (t == DType::F64) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, 8 * size_of(t));
}

// Elements as raw 64-bit words, packed and unpacked by the size of the dtype (little endian).
using Words = std::vector<std::uint64_t>;

class ConvertJit {
public:
  ConvertJit(const test::TestTarget& target, unsigned lanes) : jit_(target), lanes_(lanes) {
    const auto options = emit::convert_options(jit_.target_machine());
    jit_.add([&](llvm::Module& module) {
      auto loop = [&](DType from, DType to, auto emit) {
        test::emit_elementwise_loop(module, symbol(from, to), stored_type(module.getContext(), from),
                                    stored_type(module.getContext(), to), lanes,
                                    [&](llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value*) {
                                      b.setFastMathFlags(llvm::FastMathFlags::getFast());
                                      return emit(b, options, from, to, x);
                                    });
      };
      for (DType from : floats) {
        for (DType to : floats)
          loop(from, to, emit::emit_float_convert);
        for (DType to : integers)
          loop(from, to, emit::emit_float_to_integer);
      }
      for (DType from : integers)
        for (DType to : floats)
          loop(from, to, emit::emit_integer_to_float);
    });
  }

  static std::string symbol(DType from, DType to) { return fmt::format("{}_to_{}", name(from), name(to)); }

  Words run(DType from, DType to, const Words& x) {
    const std::size_t vectors = (x.size() + lanes_ - 1) / lanes_;
    std::vector<unsigned char> in(vectors * lanes_ * 8), out(vectors * lanes_ * 8);
    for (std::size_t i = 0; i < x.size(); ++i)
      std::memcpy(&in[i * size_of(from)], &x[i], size_of(from));
    jit_.lookup<void(const void*, const void*, void*, std::int64_t)>(symbol(from, to))(
        in.data(), in.data(), out.data(), static_cast<std::int64_t>(vectors));
    Words result(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      std::memcpy(&result[i], &out[i * size_of(to)], size_of(to));
    return result;
  }

private:
  test::TestJit jit_;
  unsigned lanes_;
};

double value_of(DType t, std::uint64_t bits) {
  if (t == DType::F32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (t == DType::F64) return std::bit_cast<double>(bits);
  return decode_float(t, static_cast<std::uint16_t>(bits));
}

std::uint64_t bits_of(DType t, double value) {
  if (t == DType::F32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (t == DType::F64) return std::bit_cast<std::uint64_t>(value);
  return encode_float(t, value);
}

// All patterns of a small format. For F32 and F64, random patterns, all values of every small format and the
// midpoints between neighbours, with the numbers next to them, and some special values.
Words float_patterns(DType t, std::mt19937_64& random) {
  Words words;
  if (size_of(t) <= 2) {
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << (8 * size_of(t)); ++bits)
      words.push_back(bits);
    return words;
  }
  for (int i = 0; i < 1 << 16; ++i)
    words.push_back(t == DType::F32 ? random() >> 32 : random());
  auto push = [&](double v) {
    for (double x : {v, std::nextafter(v, INFINITY), std::nextafter(v, -INFINITY)})
      words.push_back(bits_of(t, x));
    if (t == DType::F32)
      for (float x : {std::nextafter(float(v), INFINITY), std::nextafter(float(v), -INFINITY)})
        words.push_back(bits_of(t, x));
  };
  for (DType small : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2})
    for (unsigned bits = 0; bits + 1 < 1u << (8 * size_of(small)); ++bits) {
      const double low = decode_float(small, static_cast<std::uint16_t>(bits));
      const double high = decode_float(small, static_cast<std::uint16_t>(bits + 1));
      push(low);
      push((low + high) / 2);
    }
  for (double v : {0.0, -0.0, double(INFINITY), -double(INFINITY), std::nan(""), 448.0, 464.0, 480.0, 57344.0,
                   61440.0, 65504.0, 65520.0, 3.4e38, 3.3999e38, 1e-40, 1e-45, 1e300, 1e-320})
    push(v);
  for (int shift = 0; shift <= 64; ++shift)
    for (double offset : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
      push(std::ldexp(1.0, shift) + offset);
      push(-std::ldexp(1.0, shift) + offset);
    }
  return words;
}

Words integer_patterns(DType t, std::mt19937_64& random) {
  Words words;
  for (int i = 0; i < 1 << 14; ++i)
    words.push_back(random() >> (random() % 64));
  for (int shift = 0; shift < 64; ++shift)
    for (std::int64_t offset = -3; offset <= 3; ++offset) {
      const std::uint64_t power = std::uint64_t{1} << shift;
      words.push_back(power + offset);
      words.push_back(-power + offset);
      // These are next to a tie of bf16, where rounding twice would be wrong.
      words.push_back(power + (power >> 8) + offset);
      words.push_back(-(power + (power >> 8)) + offset);
      words.push_back(power + (power >> 7) + (power >> 8) + offset);
    }
  for (auto& w : words)
    w &= size_of(t) == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * size_of(t))) - 1;
  return words;
}

// A long double can represent every 64-bit integer.
long double integer_value(DType t, std::uint64_t bits) {
  if (is_unsigned(t)) return bits;
  const int shift = 64 - 8 * size_of(t);
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

// The integer rounded once to the float format; the narrow formats go through a double rounded to odd.
std::uint64_t reference_from_integer(DType to, long double value) {
  if (to == DType::F32) return bits_of(to, static_cast<float>(value));
  if (to == DType::F64) return bits_of(to, static_cast<double>(value));
  double rounded = static_cast<double>(value);
  if (rounded != value && !(std::bit_cast<std::uint64_t>(rounded) & 1))
    rounded = std::nextafter(rounded, value > rounded ? double(INFINITY) : -double(INFINITY));
  return encode_float(to, rounded);
}

std::uint64_t reference_to_integer(DType to, double value) {
  const int bits = 8 * size_of(to);
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  if (std::isnan(value)) return 0;
  const double top = std::ldexp(1.0, is_signed(to) ? bits - 1 : bits), bottom = is_signed(to) ? -top : 0;
  if (value >= top) return is_signed(to) ? mask >> 1 : mask;
  if (value <= bottom) return is_signed(to) ? (mask >> 1) + 1 : 0;
  return (is_signed(to) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value))
                        : static_cast<std::uint64_t>(value)) &
         mask;
}

void check_all(const test::TestTarget& target, unsigned lanes, std::mt19937_64& random) {
  ConvertJit jit(target, lanes);
  auto report = [&](DType from, DType to, std::uint64_t in, std::uint64_t actual, std::uint64_t expected) {
    FAIL_CHECK(fmt::format("{} lanes on '{}', {} {:#x} to {}: {:#x} instead of {:#x}", lanes, target.cpu,
                           name(from), in, name(to), actual, expected));
  };
  for (DType from : floats) {
    const Words x = float_patterns(from, random);
    for (DType to : floats) {
      if (test::left_out(random)) continue;
      const Words actual = jit.run(from, to, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = value_of(from, x[i]);
        const std::uint64_t expected = from == to ? x[i] : bits_of(to, value);
        const bool both_nan = std::isnan(value) && std::isnan(value_of(to, actual[i]));
        if (actual[i] != expected && !both_nan) {
          report(from, to, x[i], actual[i], expected);
          break;
        }
      }
    }
    for (DType to : integers) {
      if (test::left_out(random)) continue;
      const Words actual = jit.run(from, to, x);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (const auto expected = reference_to_integer(to, value_of(from, x[i])); actual[i] != expected) {
          report(from, to, x[i], actual[i], expected);
          break;
        }
    }
  }
  for (DType from : integers) {
    const Words x = integer_patterns(from, random);
    for (DType to : floats) {
      if (test::left_out(random)) continue;
      const Words actual = jit.run(from, to, x);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (const auto expected = reference_from_integer(to, integer_value(from, x[i]));
            actual[i] != expected) {
          report(from, to, x[i], actual[i], expected);
          break;
        }
    }
  }
  SUCCEED();
}

} // namespace

TEST_CASE("emitted conversions agree with the host's on this machine") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (unsigned lanes : {1u, 4u, 16u})
    check_all({}, lanes, random);
}

TEST_CASE("emitted conversions agree with the host's on older machines and call no library") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const char* cpu : {"x86-64-v3", "x86-64-v2"})
    for (unsigned lanes : {1u, 8u})
      if (test::runnable_target(cpu)) check_all({.cpu = cpu, .process_symbols = false}, lanes, random);
}
