// Defines Arena, tensors in one block of memory of a device, which tests fill and compare as a whole.
//
//   Arena arena(device);
//   auto x = arena.input<float>(std::array{m, n}), y = arena.result<float>(std::array{m, n});
//   arena.fill(seed);                                       // x is random, all bits of y are 1
//   ops::softmax(stream, x, y);
//   stream.synchronize();
//   const std::vector<unsigned char> bytes = arena.bytes(); // of all tensors
#pragma once

#include "random_numbers.h"

#include <kiln/kiln.h>

#include <kiln/jit/runtime/copy.h>

#include <array>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace kiln::test {

class Arena {
public:
  explicit Arena(Device device) : memory_(device, capacity), stream_(device) {}

  // A tensor that `fill` sets to numbers that no result has: NaN, or -1.
  template <class T, std::size_t R> auto result(const std::array<std::int64_t, R>& extents) {
    const std::int64_t offset = used_;
    const auto view = make<T>(extents);
    results_.push_back({dtype_of<T>, offset, view.size()});
    return view;
  }
  // A tensor whose elements are value(random, index).
  template <class T, std::size_t R, class F>
  auto input(const std::array<std::int64_t, R>& extents, const F& value) {
    const std::int64_t offset = used_;
    const auto view = make<T>(extents);
    inputs_.emplace_back(offset, [n = view.size(), value](Random& random, unsigned char* to) {
      for (std::int64_t i = 0; i < n; ++i) {
        const T x = element<T>(value(random, i));
        std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
      }
    });
    return view;
  }
  template <class T, std::size_t R> auto input(const std::array<std::int64_t, R>& extents) {
    return input<T>(extents, [](Random& r, std::int64_t) { return r.uniform(-1, 1); });
  }

  // Sets inputs to random numbers, and all bits of results.
  void fill(std::uint64_t seed) {
    Random random;
    random.std::mt19937_64::seed(seed);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(used_), 0xff);
    for (const auto& [offset, set] : inputs_)
      set(random, bytes.data() + offset);
    copy(stream_, memory_.data(), bytes.data(), used_);
    stream_.synchronize();
  }
  std::vector<unsigned char> bytes() {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(used_));
    copy(stream_, bytes.data(), memory_.data(), used_);
    stream_.synchronize();
    return bytes;
  }

  struct Result {
    DType dtype;
    std::int64_t offset, size; // in bytes and in elements
  };
  const std::vector<Result>& results() const { return results_; }

private:
  static constexpr std::int64_t capacity = 24 << 20;
  using Set = std::function<void(Random&, unsigned char*)>;

  template <class T, class V> static T element(V value) {
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      return static_cast<T>(value);
    else
      return T(static_cast<float>(value));
  }

  template <class T, std::size_t R> auto make(const std::array<std::int64_t, R>& extents) {
    std::int64_t size = sizeof(T);
    for (std::int64_t e : extents)
      size *= e;
    auto* data = reinterpret_cast<T*>(static_cast<char*>(memory_.data()) + used_);
    used_ += (size + 63) / 64 * 64;
    if (used_ > capacity) throw std::length_error("an Arena is too small for its tensors");
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return TensorView<T, static_cast<int>(R)>(data, {extents[I]...});
    }(std::make_index_sequence<R>());
  }

  Buffer memory_;
  Stream stream_;
  std::int64_t used_ = 0;
  std::vector<std::pair<std::int64_t, Set>> inputs_;
  std::vector<Result> results_;
};

} // namespace kiln::test
