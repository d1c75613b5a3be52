// Defines Strided, a tensor with random strides and guarded gaps for tests of kernels.
//
//   Random random;
//   KILN_SEED(random);                               // prints the seed if a check fails
//   Strided<bf16, 2> x(random, {m, n}, uniform(random, -1, 1)), y(random, {m, n});
//   run(kernel, {BM = 4}, x.view, y.view);
//   y.check(1e-2, [&](auto r, auto c) { return 2 * x(r, c); });    // and nothing else was written
#pragma once

#include "random_numbers.h"

#include <on_device.h>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace kiln::test {

template <class T> double to_double(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(x);
  else
    return static_cast<double>(static_cast<float>(x));
}
template <class T> T from_double(double x) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(x);
  else
    return T(static_cast<float>(x));
}

// A tensor with random strides. The memory between its elements must not change.
template <class T, int R> class Strided {
public:
  TensorView<T, R> view;

  Strided(Random& random, const std::array<std::int64_t, R>& extents) {
    std::array<std::int64_t, R> strides{}, order{};
    std::iota(order.begin(), order.end(), 0);
    const auto kind = random.integer(0, 4);
    if (kind == 3) std::shuffle(order.begin(), order.end(), random); // any axis may be the fastest
    std::int64_t step = kind == 2 ? random.integer(2, 3) : 1, first = 0;
    for (int i = R - 1; i >= 0; --i) {
      const auto axis = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
      strides[axis] = step;
      step = std::max<std::int64_t>(step * extents[axis], 1) + (kind > 0 ? random.integer(0, 5) : 0);
    }
    bytes_ = static_cast<std::size_t>(step + 16) * sizeof(T);
    memory_.reset(new (std::align_val_t(64)) unsigned char[bytes_]);
    std::memset(memory_.get(), poison, bytes_);
    if (kind == 4) // backwards
      for (std::size_t i = 0; i < R; ++i)
        if (extents[i] > 0 && random.integer(0, 1)) {
          first += strides[i] * (extents[i] - 1);
          strides[i] = -strides[i];
        }
    if (kind == 1) first += random.integer(0, 15);
    make_view(first, extents, strides, std::make_index_sequence<R>{});
  }
  template <class F>
  Strided(Random& random, const std::array<std::int64_t, R>& extents, F&& value) : Strided(random, extents) {
    fill(value);
  }
  // Sets each element to value() or to value(indices...).
  template <class F> void fill(F&& value) {
    each([&](auto... i) { view(i...) = from_double<T>(value_at(value, i...)); });
  }

  template <class... I> double operator()(I... i) const { return to_double(view(i...)); }
  operator TensorView<const T, R>() const { return view; }

  // Calls function(indices...) for each element.
  template <class F> void each(F&& function) const { loop<0>(function); }

  // Checks that every element is close to expected(indices...), and that the gaps did not change. The error
  // may be `tolerance` times the sum of the element's magnitude and the root mean square of the whole result,
  // plus the rounding error of the smallest numbers of f16, plus that of a difference of numbers as large as
  // `subtracted`.
  template <class F> void check(double tolerance, F&& expected, double subtracted = 0) const {
    double squares = 0;
    each([&](auto... i) {
      const double e = expected(i...);
      if (std::isfinite(e)) squares += e * e;
    });
    const double scale = std::sqrt(squares / std::max<double>(1, static_cast<double>(view.size())));
    const double rounding =
        (std::is_same_v<T, f16> ? 0x1p-24 : 0) + (std::is_same_v<T, double> ? 0x1p-51 : 0x1p-22) * subtracted;
    each([&](auto... i) {
      const double e = expected(i...), got = (*this)(i...);
      if (got == e) return;
      if (std::isnan(e) && std::isnan(got)) return;
      if (!(std::abs(got - e) <= tolerance * (std::abs(e) + scale) + rounding)) {
        std::string where;
        ((where += " " + std::to_string(i)), ...);
        INFO("element" << where << " of " << layout());
        REQUIRE(got == e);
      }
    });
    check_gaps();
  }
  // Checks that nothing but the elements of the view was written.
  void check_gaps() const {
    std::vector<unsigned char> owned(bytes_);
    each([&](auto... i) {
      const auto at = reinterpret_cast<const unsigned char*>(&view(i...)) - memory_.get();
      std::fill_n(owned.begin() + at, sizeof(T), 1);
    });
    for (std::size_t i = 0; i < bytes_; ++i)
      if (!owned[i] && memory_.get()[i] != poison) {
        INFO("byte " << i << " between the elements of " << layout());
        REQUIRE(static_cast<int>(memory_.get()[i]) == static_cast<int>(poison));
      }
  }
  std::string layout() const {
    std::string s = "extents";
    for (int i = 0; i < R; ++i)
      s += " " + std::to_string(view.extent(i));
    s += ", strides";
    for (int i = 0; i < R; ++i)
      s += " " + std::to_string(view.stride(i));
    return s;
  }

private:
  static constexpr unsigned char poison = 0xa5;
  struct Free {
    void operator()(unsigned char* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };

  template <std::size_t... I>
  void make_view(std::int64_t first, const std::array<std::int64_t, R>& e,
                 const std::array<std::int64_t, R>& s, std::index_sequence<I...>) {
    view = TensorView<T, R>(reinterpret_cast<T*>(memory_.get()) + first, {e[I]...}, {s[I]...});
  }
  template <class F, class... I> static double value_at(F& value, I... i) {
    if constexpr (std::is_invocable_v<F&, I...>)
      return static_cast<double>(value(i...));
    else
      return static_cast<double>(value());
  }
  template <int Axis, class F, class... I> void loop(F& function, I... i) const {
    if constexpr (Axis == R)
      function(i...);
    else
      for (std::int64_t n = 0; n < view.extent(Axis); ++n)
        loop<Axis + 1>(function, i..., n);
  }

  std::unique_ptr<unsigned char[], Free> memory_;
  std::size_t bytes_;
};

inline auto uniform(Random& random, double low, double high) {
  return [&random, low, high] { return random.uniform(low, high); };
}
inline auto integers(Random& random, std::int64_t low, std::int64_t high) {
  return [&random, low, high] { return random.integer(low, high); };
}

// The relative error that results of a dtype may have.
template <class T> constexpr double tolerance() {
  constexpr int bits = info(dtype_of<T>).mantissa_bits;
  double t = 1;
  for (int i = 0; i < bits; ++i)
    t /= 2;
  return (bits > 20 ? 16 : 2) * t;
}

// Launches a kernel on the device of KILN_TEST_DEVICE and waits, or runs it in the interpreter.
struct Run {
  bool interpreted = false;
  template <class K, class... A>
  void operator()(const K& kernel, const Config& config, A&&... arguments) const {
    if (interpreted) {
      kernel.interpret(config, arguments...);
    } else {
      on_test_device([&](Stream& stream, auto... there) { kernel.launch(stream, config, there...); },
                     arguments...);
    }
  }
};

// Sorts offsets that may decrease, for which groups overlap: an emulated GPU reports that two programs write
// the same row.
template <class T> void sort_if_emulated(Strided<T, 1>& offsets) {
  if (!test_device().is_emulated()) return;
  std::vector<T> sorted;
  offsets.each([&](auto i) { sorted.push_back(offsets.view(i)); });
  std::sort(sorted.begin(), sorted.end());
  offsets.each([&](auto i) { offsets.view(i) = sorted[static_cast<std::size_t>(i)]; });
}

} // namespace kiln::test
