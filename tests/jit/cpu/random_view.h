// Provides strided arrays of random layout, read with NumPy's broadcasting, for tests of expressions.
#pragma once

#include <kiln/jit/runtime/tensor_view.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace kiln::test {

// A view of its own memory, whose axes are in random order, with gaps, and with negative strides among them.
template <class T, int Rank> struct RandomArray {
  std::vector<T> memory;
  TensorView<T, Rank> view;

  // `draw` returns the elements; gaps keep the value `gap`.
  template <class Draw>
  RandomArray(std::mt19937_64& random, const std::vector<std::int64_t>& extents, bool row_major, Draw&& draw,
              T gap = T(77)) {
    Extent e[Rank], s[Rank];
    int order[Rank];
    for (int a = 0; a < Rank; ++a)
      order[a] = a, e[a] = extents[static_cast<std::size_t>(a)];
    if (!row_major) std::shuffle(order, order + Rank, random);
    std::int64_t stride = 1, first = 0;
    for (int k = Rank; k-- > 0;) {
      int a = order[k];
      if (!row_major && random() % 4 == 0) stride += static_cast<std::int64_t>(random() % 3);
      bool backwards = !row_major && random() % 4 == 0;
      s[a] = backwards ? -stride : stride;
      if (backwards && e[a].value > 0) first += (e[a].value - 1) * stride;
      stride *= std::max<std::int64_t>(1, e[a].value);
      if (!row_major && random() % 4 == 0) stride += static_cast<std::int64_t>(random() % 5);
    }
    memory.assign(static_cast<std::size_t>(stride + first + 1), gap);
    view = TensorView<T, Rank>(memory.data() + first, e, s);
    each(extents, [&](const std::vector<std::int64_t>& i) { at(view, i) = draw(); });
  }

  // The element that index `i` of a larger shape reads by broadcasting.
  template <class U> static U& at(const TensorView<U, Rank>& v, const std::vector<std::int64_t>& i) {
    std::int64_t offset = 0;
    for (int a = 0; a < Rank; ++a) {
      std::int64_t index = i[i.size() - Rank + static_cast<std::size_t>(a)];
      offset += (v.extent(a) == 1 ? 0 : index) * v.stride(a);
    }
    return v.data()[offset];
  }
  T& operator[](const std::vector<std::int64_t>& i) const { return at(view, i); }

  // Calls visit(index) for every index of the shape, the last axis fastest.
  template <class Visit> static void each(const std::vector<std::int64_t>& extents, Visit&& visit) {
    for (std::int64_t e : extents)
      if (e == 0) return;
    std::vector<std::int64_t> i(extents.size(), 0);
    for (;;) {
      visit(i);
      std::size_t a = extents.size();
      while (a > 0 && ++i[a - 1] == extents[a - 1])
        i[--a] = 0;
      if (a == 0) return;
    }
  }
};

// Returns extents that broadcast to `extents`: some are 1, and leading ones are dropped.
inline std::vector<std::int64_t> random_operand(std::mt19937_64& random, std::vector<std::int64_t> extents,
                                                std::size_t rank) {
  extents.erase(extents.begin(), extents.end() - static_cast<std::ptrdiff_t>(rank));
  for (auto& e : extents)
    if (random() % 3 == 0) e = 1;
  return extents;
}

} // namespace kiln::test
